#include "policy/prompt/compact_text.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/json.hpp"
#include "policy/prompt/answer_shape.hpp"
#include "policy/prompt/format_guide.hpp"
#include "policy/prompt/quantities.hpp"
#include "policy/prompt/tile_guide.hpp"
#include "policy/prompt/tile_text.hpp"
#include "policy/prompt/variant_text.hpp"
#include "sandbox/program/program.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t longest_reason = 300, longest_log = 500;  // bytes

constexpr const char* program_system =
    R"(You write a fast CUDA program for one task. It must give the task's results; its score is (time of the task's own program) / (time of yours). Answer with three sections:

## Performance analysis
One or two sentences: why the fastest variant shown is fast.

## Design
One or two sentences: what yours does better.

## Code
One fenced block with the whole program.

A program is a JSON head, a line ---, and CUDA C++ source. "steps" of the head run in order:
- {{"alloc":"y","dtype":"float32","shape":[64,32]}}: memory for kernels to write. Outputs are such memory.
- {{"launch":"my_kernel","grid":[8,1,1],"block":[256,1,1],"shared_bytes":0,"args":[{{"in":"x"}},{{"out":"y"}},{{"i32":64}}]}}: numbers only; one argument for each parameter: "in" a const pointer, "out" or "inout" a pointer that is written, "i32", "i64", "f32" scalars.
- {{"aten":"aten::mm","args":{{"self":"x","mat2":"w"}},"out":["h"]}}: a PyTorch operator.
The source has `__global__ void` kernels without templates; no #include, no host code, no <<<>>>, no std::. Every element of each output is written, none outside; threads beyond the end do nothing. Sums in float; the maximum is subtracted before exponentials.
{}
)";

constexpr const char* tile_system =
    R"(You write a fast CUDA kernel for one task. It must give the task's results; its score is (time of the task's own program) / (time of yours). Answer with three sections:

## Performance analysis
One or two sentences: why the fastest variant shown is fast.

## Design
One or two sentences: what yours does better.

## Code
One fenced block with the code: {}

Functions that the threads of a block call together:
{}No #include, no host code, no std::. Sums in float; the maximum is subtracted before exponentials.
{}
)";

constexpr const char* frame_code =
    R"(the first line of a frame of the task, such as `rows threads=256`, and then the body of its kernel, line by line: what is read comes into registers or tiles, is computed, and every output is stored.
)";

constexpr const char* launch_code =
    R"(a line `launch kernel grid=16,16,1 block=256,1,1 shared_bytes=0` for each launch, numbers only, a line `tensor t0 float32[256, 384]` for each tensor between kernels, and then the source of the kernels. Parameters are named after tensors: `const float* __restrict__ x_in` is read, `float* __restrict__ y_out` is written; there are no others.
)";

constexpr const char* schedule_system =
    R"(You write a schedule for one task: moves that make its program faster, such as fuse(steps=0..2); block(group=0, threads=256). Its score is (time of the task's own program) / (time with the schedule). Answer with three sections:

## Performance analysis
One or two sentences: which moves the fastest variant shown has.

## Design
One or two sentences: which moves you choose.

## Code
One fenced block with one schedule: moves separated by ;
)";

// The most important sentence of how fast programs look.
std::string hint_of(const device_guide& guide) {
  return guide.performance.empty() ? "" : guide.performance.front();
}

// On few lines, with the names that an answer has.
std::string short_program(const std::string& text, answer_form form = answer_form::program) {
  if (form == answer_form::tile && looks_like_tile(text)) return text;
  const auto read = read_program(text);
  return read ? print_program(with_answer_names(*read)) : text;
}

std::string compact_work(const shown_variant& v, answer_form form) {
  if (form == answer_form::schedule && !v.schedule.empty()) return v.schedule + "\n\n";
  return v.program.empty() ? "\n" : fenced(short_program(v.program, form)) + "\n";
}

std::string compact_problem(const shown_variant& v) {
  auto text = fmt::format("It failed: {}: {}\n", enum_name(v.result), shortened(v.reason, longest_reason));
  if (!v.compiler_log.empty()) text += shortened(v.compiler_log, longest_log) + "\n";
  return text;
}

std::string tensors_of(const prompt_task& w) {
  std::string text;
  for (const auto& t : w.tensors)
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", t.role, t.name, t.type);
  return "Its tensors: " + text + ".\n\n";
}

std::string compact_task(const prompt_document& d) {
  const auto& w = d.what;
  auto text = fmt::format("# Task: {}\n\n", w.name);
  if (!w.summary.empty()) text += w.summary + ".\n\n";
  if (d.form == answer_form::schedule) return text + fenced(fmt::format("{}", fmt::join(w.steps, "\n"))) + "\n";
  if (d.form == answer_form::tile)
    return text + "Its steps in PyTorch:\n\n" + fenced(fmt::format("{}", fmt::join(w.steps, "\n"))) + "\n" +
           tensors_of(w) + frames_text(d);
  return text + "Its own program:\n\n" + fenced(short_program(w.reference)) + "\n";
}

std::string compact_moves(const prompt_document& d) {
  std::string text = "# Legal moves\n\n";
  for (const auto& m : d.moves)
    if (!m.examples.empty()) text += fmt::format("{}\n", fmt::join(m.examples, "\n"));
  return text + (d.first_moves.empty() ? "" : "\nA legal schedule:\n\n" + fenced(d.first_moves)) + "\n";
}

}  // namespace

std::string compact_system_text(const prompt_document& d, const device_guide& guide) {
  if (d.form == answer_form::schedule) return schedule_system;
  if (d.form == answer_form::tile) {
    std::string functions;
    for (const auto& sentence : tile_vocabulary(parts_for(d)))
      functions += "- " + sentence + "\n";
    return fmt::format(tile_system, d.frames.empty() ? launch_code : frame_code, functions, hint_of(guide));
  }
  return fmt::format(program_system, hint_of(guide));
}

std::string compact_user_text(const prompt_document& d) {
  auto text = compact_task(d);
  if (d.form == answer_form::schedule) {
    text += compact_moves(d);
  } else if (d.form == answer_form::tile) {
    text += tile_examples_text(d);
    // Frames say what a kernel has; where there is none a whole one shows it.
    if (d.frames.empty() && d.exemplars.empty() && !d.examples.empty())
      text += fmt::format("The code for another task ({}):\n\n{}\n", d.examples.front().task,
                          fenced(d.examples.front().program));
  } else if (d.exemplars.empty() && !d.examples.empty()) {
    text += fmt::format("# A program of another task ({})\n\n{}\n", d.examples.front().task,
                        fenced(short_program(d.examples.front().program)));
  }
  for (const auto& v : d.exemplars) {
    text += fmt::format("# Earlier variant, score {:.2f}\n\n", v.measured.score);
    for (const auto& line : v.counters)
      text += line + "\n";
    text += (v.counters.empty() ? "" : "\n") + compact_work(v, d.form);
  }
  for (const auto& v : d.failed)
    text += "# Earlier variant that failed\n\n" + compact_problem(v) + "\n";
  const char* what = word_for(d.form);
  if (d.repair.empty())
    return text + fmt::format("Write your answer: a correct {}, {}.\n", what,
                              d.exemplars.empty() ? "as fast as you can" : "faster than every variant above");
  const auto& last = d.repair.back();
  return text + "# Your last answer\n\n" + compact_work(last, d.form) + compact_problem(last) +
         fmt::format("\nAnswer again, with the whole corrected {}.\n", what);
}

}  // namespace cudal1
