#include "policy/prompt/tile_guide.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/prompt/tile_frame.hpp"
#include "policy/prompt/variant_text.hpp"
#include "sandbox/program/dialect.hpp"

namespace cudal1 {

namespace {

constexpr const char* answer_text = R"(# The form of the answer

Answer in Markdown with exactly these three sections:

## Performance analysis
Which of the earlier variants is fastest and why; what the slow and the failed ones show; what bounds the task. Where none is shown: what the task's own program spends its time on.

## Design
What your kernels do differently, and why that is faster: how blocks divide the work, what is in registers and in shared memory, how often memory is read.

## Code
Exactly one fenced block with the code in the form below, and nothing else in this section. Keep the first two sections short: the code counts.

)";

constexpr const char* guide_text = R"(# Code in the tile vocabulary

Inputs, weights and outputs are the task's; you write kernels that call functions of the tile vocabulary (listed below) for what threads do together: rows in registers, sums and greatest values of a block, copies to tiles of shared memory, products of tiles. At least one of these functions is called. The code is one of two:

1. The name of a frame that the task has, with its sizes (`rows threads=256`), and then the body of its kernel alone. What the frame declares before the body is shown with the task: use its names.

2. Launches, then the source of the kernels:
   - `launch my_kernel grid=16,16,1 block=256,1,1 shared_bytes=98304`: one line for each launch, in their order; sizes are numbers.
   - `tensor t0 float32[256, 384]`: one line for each tensor that a kernel writes and a later one reads.
   - then CUDA C++. A parameter of a kernel is a tensor by its name with _in behind it where it is read, `const float* __restrict__ x_in`, and with _out where it is written, `float* __restrict__ y_out`; there are no other parameters: sizes and constants stand in the source. A kernel is no template.

All outputs are written by kernels; there are no operators of PyTorch.

)";

std::string first_word_of(const std::string& text) {
  return text.substr(0, text.find(' '));
}

// "threads=256, 128; ...": the values that each name has in the choices.
std::string choice_values(const std::vector<std::string>& choices) {
  std::vector<std::pair<std::string, std::vector<std::string>>> names;
  for (const auto& choice : choices)
    for (std::size_t at = 0; at < choice.size();) {
      const auto end = std::min(choice.find(' ', at), choice.size());
      const auto equals = choice.find('=', at);
      const auto name = choice.substr(at, equals - at), value = choice.substr(equals + 1, end - equals - 1);
      auto known = std::ranges::find(names, name, [](const auto& n) { return n.first; });
      if (known == names.end()) known = names.insert(names.end(), {name, {}});
      if (std::ranges::count(known->second, value) == 0) known->second.push_back(value);
      at = end + 1;
    }
  std::string text;
  for (const auto& [name, values] : names)
    text += fmt::format("{}{}={}", text.empty() ? "" : "; ", name, fmt::join(values, ", "));
  return text;
}

bool has_frame(const prompt_document& d, std::string_view kind) {
  return std::ranges::any_of(d.frames, [&](const auto& f) { return first_word_of(f) == kind; });
}

}  // namespace

std::string tile_answer_guide() {
  return answer_text;
}

std::string tile_guide() {
  return guide_text;
}

std::vector<std::string> tile_vocabulary(const std::vector<std::string_view>& parts) {
  std::vector<std::string> out;
  for (const auto& part : dialect_parts())
    if (part.of_tiles && (parts.empty() || std::ranges::count(parts, part.name) > 0))
      out.insert(out.end(), part.guide.begin(), part.guide.end());
  return out;
}

std::vector<std::string_view> parts_for(const prompt_document& d) {
  const bool product = has_frame(d, "product"), rows = has_frame(d, "rows");
  std::vector<std::string_view> out;
  if (rows || !product) out.emplace_back("rows");
  if (product || !rows) out.emplace_back("shared_tiles");
  return out;
}

std::string frame_text(const tile_frame& frame) {
  const auto kernel = kernel_of(frame, frame.choices.front());
  if (!kernel) return "";
  const std::size_t first_line = kernel->begin.find('\n') + 1;  // a comment with the frame
  auto text = fmt::format("{} {}\n{}  // the body\n{}", frame.kind, frame.choices.front(),
                          kernel->begin.substr(first_line), kernel->end);
  return text + fmt::format("// launched with grid {}, block {}; there are {}\n", fmt::join(kernel->launch.grid, ", "),
                            fmt::join(kernel->launch.block, ", "), choice_values(frame.choices));
}

std::string frames_text(const prompt_document& d) {
  if (d.frames.empty()) return "The task has no frames: write launches and the source of the kernels.\n\n";
  std::string text;
  for (const auto& f : d.frames) {
    const auto end = f.find('\n');
    text += fmt::format("The frame `{}` is this kernel, of which you write the body:\n\n{}\n", f.substr(0, end),
                        fenced(f.substr(end + 1)));
  }
  return text;
}

const std::vector<tile_example>& tile_examples() {
  static const std::vector<tile_example> all = {
      {"rows", "each row divided by the largest magnitude in it", "p float32[512, 1024]", "q float32[512, 1024]",
       R"(rows threads=256
float p[N];
load_row_of_block<THREADS>(p, p_row, COLUMNS, 0.0f);
float s0 = -INFINITY;
for (int i = 0; i < N; ++i) s0 = greater_or_nan(s0, fabsf(p[i]));
s0 = greatest_of_block<THREADS>(s0, scratch);
float q[N];
for (int i = 0; i < N; ++i) q[i] = p[i] / s0;
store_row_of_block<THREADS>(q_row, q, COLUMNS);
)"},
      {"product", "sigmoid of the product with a transposed matrix, plus one number for each column",
       "a float32[256, 512]; w float32[384, 512]; c float32[384]", "q float32[256, 384]",
       R"(product rows=64 columns=64 depth=32 stages=3
for_stages<STAGES>(TERMS / DEPTH, copy, [&](int step, int stage) {
  multiply_abt<mma_tf32x3, LEFT, RIGHT>(sums, left(stage), right(stage), warp_row, warp_column);
});
const auto result = [&](int row, int column, float sum) {
  const float s0 = sum + c(row, column);
  return 1.0f / (1.0f + expf(-s0));
};
for_each_pair(sums, own_row, own_column, [&](int row, int column, float sum, float next) {
  store_pair_as<mma_tf32x3>(q_at(row, column), result(row, column, sum), result(row, column + 1, next));
});
)"},
      {"launch", "the sum of the magnitudes of each row", "p float32[512, 1024]", "q float32[512]",
       R"(launch kernel grid=512,1,1 block=256,1,1 shared_bytes=0
__global__ void __launch_bounds__(256) kernel(const float* __restrict__ p_in, float* __restrict__ q_out) {
  __shared__ float scratch[8];
  float p[4];
  load_row_of_block<256>(p, p_in + blockIdx.x * 1024, 1024, 0.0f);
  float sum = 0.0f;
  for (int i = 0; i < 4; ++i) sum += fabsf(p[i]);
  sum = sum_of_block<256>(sum, scratch);
  if (threadIdx.x == 0) q_out[blockIdx.x] = sum;
}
)"}};
  return all;
}

std::string tile_examples_text(const prompt_document& d) {
  std::string text;
  for (const auto& e : tile_examples())
    if (has_frame(d, e.kind) || (d.frames.empty() && e.kind == "launch"))
      text += fmt::format("The code for another task ({}; of {}; to {}):\n\n{}\n", e.task, e.inputs, e.output,
                          fenced(std::string(e.code)));
  return text;
}

}  // namespace cudal1
