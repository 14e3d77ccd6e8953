// Answers in the tile vocabulary: which frames tasks have, how texts become programs and back, what constrained answers
// may be, what is said of mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/lowering.hpp"
#include "policy/prompt/answer_reader.hpp"
#include "policy/prompt/answer_shape.hpp"
#include "policy/prompt/prompt_text.hpp"
#include "policy/prompt/tile_guide.hpp"
#include "policy/prompt/tile_pattern.hpp"
#include "policy/prompt/tile_text.hpp"
#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/program/dialect.hpp"
#include "sandbox/program/program_library.hpp"
#include "tests/policy/prompt/prompt_fixture.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string kinds_of(const task& t) {
  std::string out;
  for (const auto& f : frames_of(t))
    out += (out.empty() ? "" : " ") + f.kind;
  return out;
}

answer read(const std::string& code, const task& t) {
  return read_answer("## Code\n```\n" + code + "```\n", {&t, nullptr, answer_form::tile, "stop"});
}

// What a compiler for `cpu` says about it; "" if nothing.
std::string compiled(const checked_program& p) {
  static const auto compiler = [] {
    host_compiler_options options;
    options.allow_weak_confinement = true;
    return value_of(host_compiler::create(options));
  }();
  const auto made = compiler->compile(p, 60);
  return made ? "" : made.error().message;
}

constexpr const char* softmax_body = R"(rows threads=256
float x[N];
load_row_of_block<THREADS>(x, x_row, COLUMNS, -INFINITY);
float s0 = -INFINITY;
for (int i = 0; i < N; ++i) s0 = greater_or_nan(s0, x[i]);
s0 = greatest_of_block<THREADS>(s0, scratch);
for (int i = 0; i < N; ++i) x[i] = expf(x[i] - s0);
float s1 = 0.0f;
for (int i = 0; i < N; ++i) s1 += x[i];
s1 = sum_of_block<THREADS>(s1, scratch);
float y[N];
for (int i = 0; i < N; ++i) y[i] = x[i] / s1;
store_row_of_block<THREADS>(y_row, y, COLUMNS);
)";

TEST(tile_frames, follow_from_what_a_task_computes) {
  for (const auto& [name, kinds] : {std::pair("softmax", "rows"),
                                    {"layer_norm", "rows"},
                                    {"affine_clamp_mish", "rows"},
                                    {"batch_norm_relu", "rows"},
                                    {"scaled_masked_softmax", "rows"},
                                    {"row_mean_square", "rows"},
                                    {"linear_gelu", "product"},
                                    {"matmul_epilogue", "product"},
                                    {"attention", ""},
                                    {"conv2d_epilogue", ""},
                                    {"cumulative_sum", ""},
                                    {"group_norm_silu", ""},
                                    {"huber_loss", ""},
                                    {"mlp", ""}})
    for (const char* profile : {"cpu", "cuda"})
      EXPECT_EQ(kinds_of(*builtin_task(name, profile)), kinds) << name << " " << profile;
  const auto masked = frames_of(*builtin_task("scaled_masked_softmax", "cpu")).front();
  EXPECT_EQ(masked.rows, 16 * 256);
  EXPECT_EQ(masked.read.at(1).row, "row % 256");
  const auto affine = frames_of(*builtin_task("affine_clamp_mish", "cpu")).front();
  EXPECT_EQ(affine.columns, 32 * 32);
  EXPECT_TRUE(affine.read.at(1).is_one_per_row);
  EXPECT_EQ(affine.read.at(1).row, "row % 32");
}

TEST(tile_frames, every_choice_makes_a_legal_program) {
  for (const char* name : {"softmax", "layer_norm", "linear_gelu", "matmul_epilogue", "row_mean_square"})
    for (const char* profile : {"cpu", "cuda"}) {
      const auto t = builtin_task(name, profile);
      for (const auto& frame : frames_of(*t))
        for (const auto& choice : frame.choices) {
          const auto made = value_of(read_tile(frame.kind + " " + choice + "\n", *t));
          EXPECT_TRUE(holds(check_program(made.made))) << name << " " << choice;
        }
    }
}

TEST(tile_answers, of_a_frame_become_programs_and_texts_again) {
  const auto t = builtin_task("softmax", "cpu");
  const auto a = read(softmax_body, *t);
  ASSERT_FALSE(a.problem) << a.problem->message;
  EXPECT_EQ(compiled(*a.program), "");
  const auto& launch = std::get<launch_step>(a.program->text.steps.at(1));
  EXPECT_EQ(launch.grid, (std::array<int64_t, 3>{2048, 1, 1}));
  EXPECT_EQ(launch.block, (std::array<int64_t, 3>{256, 1, 1}));
  EXPECT_TRUE(a.program->text.how.graph);
  EXPECT_EQ(tile_text_of(a.program->text, *t), softmax_body);
  EXPECT_EQ(as_tile_text(print_program(a.program->text), *t), softmax_body);
  // Fences of other languages and CRLF are forgiven.
  std::string windows = "## Code\r\n```cuda\r\n";
  for (const char c : std::string(softmax_body))
    windows += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(read_answer(windows + "```\r\n", {t.get(), nullptr, answer_form::tile, "stop"}).program->id, a.program->id);
}

TEST(tile_answers, with_launches_name_tensors_by_parameters) {
  const auto t = builtin_task("row_mean_square", "cpu");
  const std::string code = R"(launch first_kernel grid=4096,1,1 block=256,1,1 shared_bytes=0
launch second_kernel grid=4096,1,1 block=256,1,1 shared_bytes=0
tensor t0 float32[4096, 1024]
__global__ void first_kernel(const float* __restrict__ x_in, float* __restrict__ t0_out) {
  for (int c = threadIdx.x; c < 1024; c += 256) t0_out[blockIdx.x * 1024 + c] = x_in[blockIdx.x * 1024 + c];
}
__global__ void second_kernel(const float* __restrict__ t0_in, float* __restrict__ y_out) {
  __shared__ float scratch[8];
  float s = 0.0f;
  for (int c = threadIdx.x; c < 1024; c += 256) s += t0_in[blockIdx.x * 1024 + c] * t0_in[blockIdx.x * 1024 + c];
  s = sum_of_block<256>(s, scratch);
  if (threadIdx.x == 0) y_out[blockIdx.x] = s / 1024.0f;
}
)";
  const auto a = read(code, *t);
  ASSERT_FALSE(a.problem) << a.problem->message;
  EXPECT_EQ(compiled(*a.program), "");
  EXPECT_EQ(a.program->text.steps.size(), 4u);
  EXPECT_EQ(tile_text_of(a.program->text, *t), code);
  const auto shape = value_of(shape_of_answer(*t, *value_of(find_lowering_target("cpu")), answer_form::tile));
  const std::string words = "## Performance analysis\nRows.\n## Design\nTwo.\n## Code\n```\n";
  EXPECT_TRUE(shape.accepts(words + code + "```"));
  auto none = code;
  none.replace(none.find("sum_of_block<256>(s, scratch)"), 29, "s");
  EXPECT_FALSE(shape.accepts(words + none + "```"));
  auto other = code;
  other.replace(other.find("x_in,"), 5, "z_in,");
  EXPECT_FALSE(shape.accepts(words + other + "```"));
  // A line that would be read as a launch is none of the source.
  auto further = code;
  further.replace(further.find("__global__"), 0, "launch third_kernel grid=1\n");
  EXPECT_FALSE(shape.accepts(words + further + "```"));
}

task example_task(const tile_example& e) {
  // "p float32[512, 1024]; w float32[8]": the task itself does not matter, but for its product.
  const auto declared = [](std::string_view text) {
    json::array out;
    while (!text.empty()) {
      const auto end = std::min(text.find(';'), text.size());
      const auto one = text.substr(0, end);
      const auto blank = one.find(' '), open = one.find('['), close = one.find(']');
      out.push_back(value_of(
          json::parse(fmt::format(R"({{"name": "{}", "dtype": "{}", "shape": [{}]}})", one.substr(0, blank),
                                  one.substr(blank + 1, open - blank - 1), one.substr(open + 1, close - open - 1)))));
      text.remove_prefix(std::min(end + 2, text.size()));
    }
    return json(std::move(out)).text();
  };
  const std::string steps =
      e.kind == "product"
          ? R"({"aten": "aten::linear", "args": {"input": "a", "weight": "w", "bias": "c"}, "out": ["h"]},
              {"aten": "aten::sigmoid", "args": {"self": "h"}, "out": ["q"]})"
      : e.kind == "rows" ? R"({"aten": "aten::abs", "args": {"self": "p"}, "out": ["m"]},
              {"aten": "aten::amax", "args": {"self": "m", "dim": [1], "keepdim": true}, "out": ["t"]},
              {"aten": "aten::div.Tensor", "args": {"self": "p", "other": "t"}, "out": ["q"]})"
                         : R"({"aten": "aten::abs", "args": {"self": "p"}, "out": ["m"]},
              {"aten": "aten::sum.dim_IntList", "args": {"self": "m", "dim": [1]}, "out": ["q"]})";
  return value_of(read_task(
      fmt::format(
          R"({{"format": 1, "name": "example", "summary": "", "family": "pointwise", "inputs": {}, "weights": [],
                      "steps": [{}], "outputs": ["q"]}})",
          declared(e.inputs), steps),
      "cpu"));
}

TEST(tile_examples, can_be_written_read_and_compiled) {
  for (const auto& e : tile_examples()) {
    SCOPED_TRACE(e.kind);
    const auto t = example_task(e);
    const auto a = read(std::string(e.code), t);
    ASSERT_FALSE(a.problem) << a.problem->message;
    EXPECT_EQ(compiled(*a.program), "");
    const auto shape = value_of(shape_of_answer(t, *value_of(find_lowering_target("cpu")), answer_form::tile));
    EXPECT_TRUE(
        shape.accepts("## Performance analysis\na\n## Design\nb\n## Code\n```\n" + std::string(e.code) + "```"));
  }
}

TEST(tile_texts, are_those_of_library_and_generated_programs_with_the_vocabulary) {
  const auto library = value_of(load_example_library("cuda"));
  std::vector<std::string> written;
  for (const auto& e : *library)
    if (!e.tile_text.empty()) written.push_back(e.program.name);
  EXPECT_THAT(written, testing::IsSupersetOf({"conv2d_epilogue_implicit", "linear_gelu_tiles",
                                              "matmul_epilogue_tensor_cores", "softmax"}));
  const auto t = builtin_task("linear_gelu", "cuda");
  const auto* target = value_of(find_lowering_target("cuda"));
  const auto made = value_of(lower(*t, value_of(parse_schedule("fuse(steps=1); product_kernel(steps=0..1)")), *target));
  const auto text = tile_text_of(made.checked.text, *t);
  ASSERT_TRUE(text) << print_program(made.checked.text);
  EXPECT_FALSE(tile_functions_in(made.checked.text.source).empty());
  const auto shape = value_of(shape_of_answer(*t, *target, answer_form::tile));
  auto code = *text;
  code.erase(code.find_last_not_of('\n') + 1);
  EXPECT_TRUE(shape.accepts("## Performance analysis\na\n## Design\nb\n## Code\n```\n" + code + "\n```")) << code;
  // Operators of PyTorch are none of the form.
  const auto mixed = value_of(lower(*t, value_of(parse_schedule("fuse(steps=1)")), *target));
  EXPECT_FALSE(tile_text_of(mixed.checked.text, *t));
}

TEST(tile_answers, that_are_wrong_say_what_to_write) {
  const auto t = builtin_task("softmax", "cpu");
  const auto problem = [&](const std::string& code) {
    const auto a = read(code, *t);
    return a.problem ? a.problem->message : "";
  };
  std::string body = softmax_body;
  EXPECT_THAT(problem("rows threads=100\n" + body.substr(body.find('\n') + 1)),
              AllOf(HasSubstr("rows threads=100"), HasSubstr("\"rows threads=256\"")));
  EXPECT_THAT(problem("product rows=64\nx\n"), HasSubstr("the task has no frame \"product\""));
  EXPECT_THAT(problem("rows threads=256\ny_row[threadIdx.x] = x_row[threadIdx.x];\n"),
              AllOf(HasSubstr("no function of the tile vocabulary"), HasSubstr("sum_of_block")));
  const std::string kernel = "__global__ void k(const float* x_in, float* y_out, int n) { sum_of_warp(0.0f); }\n";
  EXPECT_THAT(problem(kernel), AllOf(HasSubstr("nothing that launches it"), HasSubstr("launch NAME")));
  EXPECT_THAT(problem("launch k grid=16 block=256\n" + kernel), AllOf(HasSubstr("int n"), HasSubstr("is no tensor")));
  EXPECT_THAT(problem("launch other grid=16 block=256\n" + kernel), HasSubstr("__global__ void other(...)"));
  EXPECT_THAT(problem("launch k grid=(n+1)/2 block=256\n" + kernel), HasSubstr("grid=16,16,1"));
  EXPECT_THAT(problem("tensor t0 float[4]\nlaunch k grid=16\n" + kernel), HasSubstr("tensor t0 float32[256, 384]"));
  EXPECT_THAT(problem("tensor t0 float32[4]\n" + kernel), HasSubstr("no kernel is launched"));
  const auto two = read_answer("## Code\n```\n" + body + "```\n```\nrows threads=128\n```\n",
                               {t.get(), nullptr, answer_form::tile, "stop"});
  EXPECT_THAT(two.problem->message, HasSubstr("2 different kernels"));
  EXPECT_THAT(read_answer("I cannot.", {t.get(), nullptr, answer_form::tile, "stop"}).problem->message,
              AllOf(HasSubstr("no code in the tile vocabulary"), HasSubstr("exactly one fenced block")));
  // A program of the format will do, if it calls the vocabulary.
  const auto whole = print_program(read(body, *t).program->text);
  EXPECT_EQ(problem(whole), "");
}

// What a constrained answer may be compiles, whatever its expressions are.
TEST(tile_shapes, allow_statements_that_compile_and_no_others) {
  const auto t = builtin_task("softmax", "cpu");
  const auto frame = frames_of(*t).front();
  const auto shape = value_of(byte_automaton::make(body_pattern(frame)));
  EXPECT_TRUE(shape.accepts(softmax_body));
  for (const auto& [was, is] : {std::pair("expf(x[i] - s0)", "expf(x[i] - s1)"),
                                {"expf(x[i] - s0)", "x[i] -"},
                                {"x[i] / s1", "x[j] / s1"},
                                {"sum_of_block", "product_of_block"},
                                {"threads=256", "threads=100"},
                                {"float s1 = 0.0f", "float s0 = 0.0f"}}) {
    std::string body = softmax_body;
    body.replace(body.find(was), std::string(was).size(), is);
    EXPECT_FALSE(shape.accepts(body)) << is;
  }
  std::string odd = softmax_body;
  odd.replace(odd.find("x[i] / s1"), 9, "-greater_or_nan((x[i] + 1.5e-05f) * tanhf(s0), -s1) / 2.0f - -x[i]");
  ASSERT_TRUE(shape.accepts(odd));
  EXPECT_EQ(compiled(*read(odd, *t).program), "");
}

TEST(tile_prompts, show_the_frame_the_vocabulary_and_no_json) {
  for (const char* target : {"cpu", "cuda"}) {
    const auto p = prompt_for("rms_norm", target);
    const auto d = value_of(build_document(p, sources_for(p, answer_form::tile)));
    for (const auto detail : {prompt_detail::full, prompt_detail::compact}) {
      const auto text = value_of(render(d, 20000, detail));
      const auto both = text.system + text.user;
      EXPECT_THAT(both, AllOf(HasSubstr("rows threads="), HasSubstr("load_row_of_block<THREADS>(p, p_row"),
                              HasSubstr("const float* __restrict__ weight_in"), HasSubstr("sum_of_block<THREADS>")));
      EXPECT_THAT(both, testing::Not(HasSubstr("{\"launch\"")));
      fmt::print("{} {}: about {} tokens\n", target, text.compact ? "compact" : "full", text.tokens);
    }
  }
}

}  // namespace
}  // namespace cudal1
