#include "policy/prompt/format_guide.hpp"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/prompt/tile_guide.hpp"

namespace cudal1 {

namespace {

constexpr const char* program_answer = R"(# The form of the answer

Answer in Markdown with exactly these three sections:

## Performance analysis
Which of the earlier variants is fastest and why; what the slow and the failed ones show; what bounds the task. Where none is shown: what the task's own program spends its time on.

## Design
What your variant does differently, and why that is faster: which steps become one kernel, how threads divide the work, which memory is read and written.

## Code
Exactly one fenced block with one complete program in the format below, and nothing else in this section. Do not leave parts out, and do not write a second program. Keep the first two sections short: the program counts.

)";

constexpr const char* schedule_answer = R"(# The form of the answer

Answer in Markdown with exactly these three sections:

## Performance analysis
Which of the earlier variants is fastest and why; which moves it has that the others lack; what bounds the task. Where none is shown: what the task's own program spends its time on.

## Design
Which moves you choose, and why they are faster together.

## Code
Exactly one fenced block with one schedule: moves separated by `;`, and nothing else in this section.

)";

constexpr const char* format_text = R"(# The program format

A program is a text: a JSON object (the head), a line that is exactly `---`, then CUDA C++ with the kernels. The line and the source are left out only if there is no launch. The head is strict JSON: no comments, no trailing commas, no expressions, no other keys than these:

- "format": 1. "name": any short text.
- "inputs", "weights": exactly those of the task, copied (names, order, dtypes, shapes). "weights" may be left out where there are none.
- "setup": steps that read only weights and earlier setup results. They run once, untimed, and again when weights change; later steps may read their results, but not write or output them. May be left out.
- "steps": what a call does, in order.
- "outputs": the names of the results, in the task's order. Names are free; dtype, shape and contiguous layout are the task's. An output owns its memory: it is an `alloc` or a new result of an `aten` step, never an input, a weight, a view or a setup result.
- "execution": {"graph": false, "lanes": 1}, may be left out. "headers": may be left out.

Each step is one of three:

- {"alloc": "h", "dtype": "float32", "shape": [64, 32]}: contiguous memory with undefined content for kernels to write.
- {"launch": "my_kernel", "grid": [x, y, z], "block": [x, y, z], "shared_bytes": 0, "args": [...]}: sizes are numbers, since all shapes are known. Grid and block are arrays; at most 1024 threads a block; "shared_bytes" may be left out. "args" has one entry for each parameter of the kernel, in its order:
  {"in": "x"} for a `const T*` that is read; {"out": "y"} for a `T*` of which the kernel writes every element; {"inout": "y"} for a `T*` that is read and written in place. Scalars carry the type of the parameter: {"i32": 64} for int, {"i64": 64} for long long, {"f32": 0.5} for float, {"f64": 0.5} for double. A tensor is never passed without in, out or inout, and no tensor twice where one of the uses writes it.
- {"aten": "aten::addmm", "args": {"self": "bias", "mat1": "x", "mat2": "w"}, "out": ["h"]}: an operator with its overload (`aten::add.Tensor`, `aten::sum.dim_IntList`, `aten::mm`), arguments by the names of its schema, one name for each result. Only listed operators exist, and they are functional (no `out=`, no `relu_`). Arguments with defaults may be left out. dtypes are names such as "float32".

Every name is bound once and used after that. Kernels may write `alloc`s and results of `aten` steps that are no views; never inputs, weights or views. A kernel gets the address of a tensor's first element; views (transpose, slice, expand) keep their strides, so call aten::contiguous before a kernel that assumes rows, or index by the strides.

)";

constexpr const char* schedule_text = R"(# Schedules

A schedule is a list of moves: `fuse(steps=2..5); block(group=0, threads=256)`. Each move is a transformation of the task's program that is checked and keeps its result; the program and its kernels are generated. Parameters are written as name=value, in the order that the list of moves gives. `steps` is a range of step numbers of the task's program, counted from 0, where a triplet or cosine embedding loss that is averaged or summed counts as two (the loss of each row, and their mean or sum); `group` is the number of a kernel, counted from 0 in the order in which the moves before created them. Write moves in the order of the list: proofs, grouping, implementations, tuning, execution. A move that is not legal where it stands makes the whole schedule invalid.

)";

// Kinds of draws in words.
std::string words_for(const std::string& draw) {
  static const std::map<std::string, std::string> words{
      {"declared", "the declared distribution"},
      {"standard_normal", "N(0,1)"},
      {"wide_normal", "10 N(0,1)"},
      {"around_one", "1 + 0.01 N(0,1)"},
      {"heavy_tails", "Student's t with two degrees of freedom"},
      {"peaked", "one element of each row raised by 20"},
      {"offset_rows", "a scale and an offset for each row"},
      {"products", "near 1, with random signs"},
      {"outliers", "a few elements far outside"},
      {"outlier_above", "one element far above"},
      {"outlier_below", "one element far below"},
      {"small_integers", "integers from -2 to 2 (results must be exact)"},
      {"impulses", "one input zero except at edges and tile borders"}};
  const auto found = words.find(draw);
  return found == words.end() ? draw : found->second;
}

std::string gates_text(const prompt_task& what) {
  std::vector<std::string> draws;
  draws.reserve(what.draws.size());
  for (const auto& d : what.draws)
    draws.push_back(words_for(d));
  const auto close = what.half ? "1e-2 (half types)" : "1e-4";
  std::string text = fmt::format(
      "- The same result as the task's program on every input of these shapes. Checked on these distributions of "
      "inputs "
      "and weights: {0}. So do not rely on values being small, positive or alike; only on the declared facts.\n"
      "- Every element within {2} (absolute and relative) of PyTorch's; the root mean square of the error against "
      "float64, relative to that of the exact output, at most the larger of {1} and 32 times what PyTorch's strict "
      "float32 has: accumulate in float32 or better, subtract "
      "the maximum before exponentials, compute variances without cancellation. NaN and infinities where PyTorch has "
      "them: `fmaxf` drops NaN, so a maximum or ReLU is written `(a > b) | (a != a) ? a : b`, `v < 0.0f ? 0.0f : v`.\n",
      fmt::join(draws, "; "), what.half ? "1e-2" : "5e-6", close);
  if (what.precision == "strict")
    text +=
        "- As exact as float32 without TensorFloat-32, also where PyTorch uses it: no product of float32 in TF32 or a "
        "half type, but of split operands (3xTF32).\n";
  if (what.half_error > 0)
    text += fmt::format(
        "- In float32 products, operands may be rounded to float16 or TF32 (not to bfloat16) if sums are float32: then "
        "the root mean square of the error may be {:.3g} of the output's, and an element off by 1e-2 of that.\n",
        what.half_error);
  if (what.integers) text += "- Integer and boolean results must be equal.\n";
  return text;
}

}  // namespace

std::string introduction(answer_form form) {
  return fmt::format(
      "You write fast {} for one task. What you write is compiled, checked against the task's own program and timed "
      "beside it, in pairs of calls; its score is the median of (time of the task's program) / (time of yours). The "
      "aim is "
      "the highest score of a correct variant. Earlier variants with their measured scores are shown, if there are "
      "any: "
      "find out why the fast ones are fast, then write one that is faster than all of them.\n\n",
      form == answer_form::program    ? "CUDA programs"
      : form == answer_form::schedule ? "schedules (lists of program transformations)"
                                      : "CUDA kernels from a vocabulary of device functions");
}

std::string answer_guide(answer_form form) {
  if (form == answer_form::tile) return tile_answer_guide();
  return form == answer_form::program ? program_answer : schedule_answer;
}

const char* word_for(answer_form form) {
  return form == answer_form::program ? "program" : form == answer_form::schedule ? "schedule" : "kernel";
}

std::string format_guide() {
  return format_text;
}

std::string schedule_guide() {
  return schedule_text;
}

std::string requirements_text(const device_guide& guide, const prompt_task& what, answer_form form) {
  if (form == answer_form::schedule)
    return "# Requirements and prohibitions\n\n- Each move is legal where it stands: moves keep the result, and what "
           "they "
           "cannot prove is refused.\n- The program that the schedule makes is checked and timed like any other: "
           "within "
           "1e-4 of PyTorch's results (1e-2 for half types), on inputs of many distributions, and the same bits in "
           "every "
           "call.\n- One schedule, of the listed moves with the listed parameters only: nothing else is a move.\n\n";
  std::string text = "# Requirements and prohibitions\n\nRequired:\n" + gates_text(what);
  text +=
      "- The same inputs give the same bits in every call. Each call does its whole work: what a call leaves behind is "
      "overwritten, inputs are new at each timed call, and a time below that of the unavoidable memory traffic is "
      "refused.\n"
      "- Constants may come from shapes and from the task's program, never from the values of inputs or weights, which "
      "are drawn anew.\n";
  text +=
      "- Every element of every output is written, and nothing outside of a tensor is read or written: memory is "
      "poisoned "
      "and guarded.\n\nProhibited, and why:\n";
  for (const auto& p : common_prohibitions())
    text += fmt::format("- {}: {}.\n", p.what, p.why);
  for (const auto& p : guide.refused)
    text += fmt::format("- {}: {}.\n", p.what, p.why);
  return text + "\n";
}

}  // namespace cudal1
