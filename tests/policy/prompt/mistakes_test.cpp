// Mistakes that a language model makes in a program: the message alone must say what to write instead.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/prompt/answer_reader.hpp"
#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "tests/policy/prompt/prompt_fixture.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

constexpr const char* good_program = R"({ "format": 1, "name": "gelu",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [768, 512]}],
  "steps": [
    {"alloc": "y", "dtype": "float32", "shape": [768, 512]},
    {"launch": "gelu", "grid": [384, 1, 1], "block": [1024, 1, 1],
     "args": [{"in": "x"}, {"out": "y"}, {"f32": 0.5}, {"i32": 393216}]} ],
  "outputs": ["y"] }
---
__device__ float half_of(float v, float by) { return v * by; }

__global__ void gelu(const float* x, float* y, float by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = half_of(x[i], by);
  }
}
)";

// A mistake: what it replaces in the good program, and what its message must have.
struct mistake {
  const char* name;
  std::string from, to;
  std::vector<std::string> says;
};

const std::vector<mistake>& mistakes() {
  static const std::vector<mistake> all{
      {"the_separator_is_missing", "---\n", "", {"a line that is exactly ---", "before the source"}},
      {"the_separator_is_longer", "---\n", "-----\n", {"a line that is exactly ---"}},
      {"the_head_is_missing",
       std::string(good_program).substr(0, std::string(good_program).find("---")),
       "",
       {"without the JSON head", "write exactly one fenced block"}},
      {"an_include", "__device__", "#include <cmath>\n__device__", {"#include is not allowed", "remove the line"}},
      {"a_block_of_extern_c", "__device__", "extern \"C\" {\n__device__", {"extern \"C\"", "remove"}},
      {"a_device_variable",
       "__device__ float half_of(float v, float by) { return v * by; }",
       "__device__ float total;\n__device__ float half_of(float v, float by) { return total += v * by; }",
       {"\"total\"", "alloc"}},
      {"a_static_variable",
       "  const int i = blockIdx",
       "  static int calls = 0; calls += 1;\n  const int i = blockIdx",
       {"calls", "alloc"}},
      {"arguments_in_another_order",
       R"({"in": "x"}, {"out": "y"}, {"f32": 0.5})",
       R"({"f32": 0.5}, {"in": "x"}, {"out": "y"})",
       {"args[0]", "const float* x", "as in, out or inout"}},
      {"arguments_are_missing",
       R"(, {"f32": 0.5}, {"i32": 393216})",
       "",
       {"4 parameters", "2 arguments", "gelu(const float* x, float* y, float by, int n)", "in its order"}},
      {"an_integer_for_a_float", R"({"f32": 0.5})", R"({"i32": 1})", {"float by", "takes f32", R"({"f32": 1.0})"}},
      {"a_bare_number", R"({"i32": 393216})", "393216", {"args[3]", R"({"i32": 393216})"}},
      {"a_bare_name", R"({"in": "x"})", R"("x")", {"args[0]", R"({"in": "x"})"}},
      {"a_grid_that_is_a_number", "[384, 1, 1]", "384", {"grid", "[384, 1, 1]"}},
      {"a_grid_that_is_an_expression", "[384, 1, 1]", R"(["(n + 1023) / 1024", 1, 1])", {"write the number itself"}},
      {"too_many_threads", "[1024, 1, 1]", "[2048, 1, 1]", {"1024", "more blocks"}},
      {"shared_memory_that_is_not_asked_for",
       "  const int i = blockIdx",
       "  extern __shared__ float buffer[];\n  buffer[threadIdx.x] = 0;\n  const int i = blockIdx",
       {"shared_bytes", "buffer"}},
      {"printf", "  if (i < n) {", "  if (i < n) { printf(\"%d\", i);", {"printf", "leave it out"}},
      {"std", "return v * by", "return std::max(v, by)", {"std", "without std::"}},
      {"a_kernel_that_is_a_template",
       "__global__ void gelu(const float* x, float* y",
       "template <class T> __global__ void gelu(const T* x, T* y",
       {"template", "__global__ void gelu(...)"}},
      {"an_output_that_no_step_makes",
       R"({"alloc": "y", "dtype": "float32", "shape": [768, 512]},)",
       "",
       {"no value \"y\"", "alloc"}},
      {"an_output_that_is_not_listed", R"("outputs": ["y"])", R"("outputs": [])", {"outputs", "write"}},
      {"an_output_of_another_shape",
       R"({"alloc": "y", "dtype": "float32", "shape": [768, 512]})",
       R"({"alloc": "y", "dtype": "float32", "shape": [393216]})",
       {"float32[768, 512]", "give the step"}},
      {"an_input_of_another_shape",
       R"("inputs": [{"name": "x", "dtype": "float32", "shape": [768, 512]}])",
       R"("inputs": [{"name": "x", "dtype": "float32", "shape": [512, 768]}])",
       {"should be x float32[768, 512]"}},
      {"an_operator_without_its_overload",
       R"({"launch")",
       R"({"aten": "aten::add", "args": {"self": "x", "other": "x"}, "out": ["z"]},
    {"launch")",
       {"aten::add.Tensor", "overload"}},
      {"an_operator_of_torch",
       R"({"launch")",
       R"({"aten": "torch.relu", "args": {"self": "x"}, "out": ["z"]},
    {"launch")",
       {"aten::relu"}},
      {"an_operator_in_place",
       R"({"launch")",
       R"({"aten": "aten::relu_", "args": {"self": "x"}, "out": ["z"]},
    {"launch")",
       {"aten::relu"}},
      {"an_output_written_as_a_string",
       R"({"launch")",
       R"({"aten": "aten::relu", "args": {"self": "x"}, "out": "z"},
    {"launch")",
       {"[\"z\"]"}},
      {"float4_from_a_float_pointer",
       "y[i] = half_of(x[i], by)",
       "const float4 v = x[i]; y[i] = v.x * by",
       {"float4", "program.cu:6:"}},
      {"a_write_to_an_input", R"({"in": "x"})", R"({"inout": "x"})", {"an input", "alloc"}},
      {"a_c_type_as_dtype",
       R"("dtype": "float32", "shape": [768, 512]},)",
       R"("dtype": "float", "shape": [768, 512]},)",
       {"float32"}},
      {"an_unknown_key", "\"outputs\"", "\"kernels\": [], \"outputs\"", {"unknown key \"kernels\"", "known:"}},
      {"half", "return v * by", "__half h = __float2half(v); return v * by", {"float_of_half"}},
      {"a_kernel_of_another_name", "__global__ void gelu(", "__global__ void gelu_kernel(", {"gelu_kernel"}},
      {"a_kernel_that_returns_a_value", "__global__ void gelu(", "__global__ float gelu(", {"__global__ void gelu("}},
  };
  return all;
}

std::string with(const mistake& m) {
  std::string text = good_program;
  const auto at = text.find(m.from);
  if (at == std::string::npos) throw std::runtime_error(std::string(m.name) + ": nothing to replace");
  return text.replace(at, m.from.size(), m.to);
}

// What a model would be told about a program that it wrote for the device `cpu`; "" if nothing is wrong.
std::string told(const std::string& program) {
  static const auto task = builtin_task("gelu_by_hand", "cpu");
  static const auto compiler = [] {
    host_compiler_options options;
    options.allow_weak_confinement = true;
    return value_of(host_compiler::create(options));
  }();
  const auto* target = value_of(find_lowering_target("cpu"));
  const auto a = read_answer("## Code\n```\n" + program + "```\n", {task.get(), target, answer_form::program, "stop"});
  if (a.problem) return a.problem->message;
  const auto compiled = compiler->compile(*a.program, 20);
  return compiled ? "" : compiled.error().message;
}

class mistakes_of_models : public testing::TestWithParam<mistake> {};

TEST_P(mistakes_of_models, are_explained_by_their_message_alone) {
  const auto message = told(with(GetParam()));
  RecordProperty("message", message);
  for (const auto& part : GetParam().says)
    EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(all, mistakes_of_models, testing::ValuesIn(mistakes()),
                         [](const auto& made) { return std::string(made.param.name); });

TEST(mistakes, the_program_without_them_is_right) {
  EXPECT_EQ(told(good_program), "");
}

}  // namespace
}  // namespace cudal1
