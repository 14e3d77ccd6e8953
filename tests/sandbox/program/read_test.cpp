// The reader: what it accepts, and its errors for everything else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/program/examples.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(read_program, reads_every_part) {
  const auto p = read_program(prepacked_text);
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(p->name, "prepacked");
  EXPECT_EQ(p->inputs, (std::vector<tensor_declaration>{{"x", contiguous(dtype::float32, {8, 16})}}));
  EXPECT_EQ(p->weights.at(0).type.text(), "float32[4, 16]");
  ASSERT_EQ(p->setup.size(), 2u);
  ASSERT_EQ(p->steps.size(), 3u);
  const auto& mm = std::get<aten_step>(p->steps[0]);
  EXPECT_EQ(mm.op, "aten::mm");
  EXPECT_EQ(mm.precision, "tf32");
  EXPECT_EQ(mm.results, std::vector<std::string>{"h"});
  EXPECT_EQ(std::get<alloc_step>(p->steps[1]).type, contiguous(dtype::float32, {8, 4}));
  const auto& launch = std::get<launch_step>(p->steps[2]);
  EXPECT_EQ(launch.grid, (std::array<int64_t, 3>{1, 1, 1}));
  EXPECT_EQ(launch.block, (std::array<int64_t, 3>{32, 1, 1}));
  ASSERT_EQ(launch.args.size(), 4u);
  EXPECT_EQ(launch.args[2].real, static_cast<double>(0.1f)) << "rounded to float";
  EXPECT_EQ(launch.args[3].integer, 32);
  EXPECT_TRUE(p->how.graph);
  EXPECT_EQ(p->how.lanes, 2);
  EXPECT_TRUE(p->source.starts_with("__global__"));
}

TEST(read_program, counts_steps_from_one) {
  const auto p = read_program(prepacked_text);
  ASSERT_TRUE(p);
  EXPECT_EQ(step_label(2, p->steps[2]), "step 3 (launch shift)");
  EXPECT_EQ(step_label(1, p->steps[1]), "step 2 (alloc y)");
  EXPECT_EQ(step_label(0, p->setup[0], program_section::setup), "setup step 1 (aten::mul.Scalar)");
}

TEST(read_program, distinguishes_integers_from_reals_and_reads_infinity) {
  const auto p =
      read_program(replaced(row_scale_text, R"({"i32": 32})", R"({"f64": "-inf"},{"f32": 2},{"f64": "nan"})"));
  ASSERT_TRUE(p) << p.error().message;
  const auto& args = std::get<launch_step>(p->steps[1]).args;
  EXPECT_EQ(args[3].real, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(args[4].real, 2.0);
  EXPECT_TRUE(std::isnan(args[5].real));
  EXPECT_EQ(*p, *read_program(print_program(*p))) << "a NaN is equal to itself here";
}

TEST(read_program, reads_both_kinds_of_line_ends_as_the_same_program) {
  std::string windows;
  for (const char c : row_scale_text)
    windows += c == '\n' ? "\r\n" : std::string(1, c);
  const auto a = read_program(row_scale_text), b = read_program(windows);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(program_id(*a), program_id(*b));
}

TEST(read_program, needs_no_source_for_a_program_without_kernels) {
  const std::string text = R"({"format":1,"name":"n","inputs":[{"name":"x","dtype":"float32","shape":[4]}],)"
                           R"("steps":[{"aten":"aten::relu","args":{"self":"x"},"out":["y"]}],"outputs":["y"]})";
  EXPECT_EQ(problem_of(text), "");
  EXPECT_EQ(problem_of(text + "\n"), "");
  EXPECT_EQ(problem_of(text + "\n---"), "");
  EXPECT_EQ(problem_of(text + "\n---\n"), "");
  EXPECT_EQ(program_id(*read_program(text)), program_id(*read_program(text + "\n---\n")));
}

TEST(read_program, prints_no_control_characters_in_errors) {
  const auto message = problem_of(replaced(row_scale_text, "aten::relu", "\\u001b[2J\\u0000\\n"));
  EXPECT_EQ(message, "step 3 (?[2J?\?), aten: should be an operator's name, such as aten::add.Tensor");
  for (const auto* field :
       {"\"a\"", "\"float32\"", "\"y\"", "\"row_scale\", \"grid", "\"in\"", "\"z\"", "\"format\""}) {
    const auto refused = problem_of(replaced(row_scale_text, field, "\"\\u001b\\n\""));
    EXPECT_NE(refused, "") << field;
    EXPECT_TRUE(std::all_of(refused.begin(), refused.end(), [](char c) { return c >= 0x20 && c < 0x7f; })) << refused;
  }
}

struct malformed {
  std::string from, to;             // of row_scale_text
  std::vector<std::string> wanted;  // parts of the message
};

TEST(read_program, names_the_step_the_field_and_the_reason) {
  const std::vector<malformed> cases = {
      {"{ \"format\": 1,", "{", {"the head", "\"format\" is missing"}},
      {"\"format\": 1", "\"format\": 2", {"format: 2 is not 1"}},
      {"\"format\": 1", "\"format\": \"1\"", {"format: should be an integer, but is a string"}},
      {"\"format\": 1", "\"format\": 1, \"format\": 1", {"\"format\" appears twice"}},
      {"\"name\": \"row_scale\",", "", {"the head", "\"name\" is missing"}},
      {"\"name\": \"row_scale\"", "\"name\": \"\"", {"name: should have 1 to 200 bytes"}},
      {"\"inputs\"", "\"input\"", {"the head: unknown key \"input\"; did you mean \"inputs\"?"}},
      {"\"name\": \"a\"", "\"name\": 7", {"inputs[0], name: should be a string, but is an integer"}},
      {"\"name\": \"a\"", "\"name\": \"1a\"", {"inputs[0], name: \"1a\" is not a valid name"}},
      {"\"name\": \"a\", ", "", {"inputs[0]: the key \"name\" is missing"}},
      {"\"float32\"", "\"float\"", {"inputs[0] (a), dtype: there is no \"float\"", "did you mean \"float32\"?"}},
      {"\"float32\"", "\"bool_\"", {"inputs[0] (a), dtype: there is no \"bool_\"", "did you mean \"bool\"?"}},
      {"\"shape\": [64]", "\"shape\": 64", {"inputs[0] (a), shape: should be an array of integers"}},
      {"\"shape\": [64]", "\"shape\": [64.0]", {"inputs[0] (a), shape[0]: should be an integer, but is a number"}},
      {"\"shape\": [64]", "\"shape\": [-64]", {"inputs[0] (a), shape[0]: -64 is negative"}},
      {"\"shape\": [64]", "\"shape\": [64], \"strides\": [1, 1]", {"inputs[0] (a), strides: should have 1 numbers"}},
      {"\"shape\": [64]", "\"shape\": [64], \"strides\": [-1]", {"inputs[0] (a), strides[0]: -1 is negative"}},
      {"\"shape\": [64]", "\"shap\": [64]", {"inputs[0] (a)", "\"shap\"; did you mean \"shape\"?"}},
      {"\"shape\": [64]",
       "\"shape\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
       {"17 dimensions are above the limit of 16"}},
      {"\"shape\": [64]", "\"shape\": [99999999999999999999]", {"does not fit 64 bits"}},
      {"{\"alloc\": \"y\",", "{", {"step 1: should have one of the keys alloc, launch and aten, but has none of them"}},
      {"{\"alloc\": \"y\",", "{\"alloc\": \"y\", \"aten\": \"q\",", {"step 1: should have one of", "alloc and aten"}},
      {"{\"alloc\": \"y\",",
       "{\"alloc\": \"y\", \"strides\": [32, 1],",
       {"step 1 (alloc y), strides: an allocation is contiguous"}},
      {"{\"alloc\": \"y\",", "7, {\"alloc\": \"y\",", {"step 1: should be an object, but is an integer"}},
      {"\"grid\": [64, 1, 1]",
       "\"grid\": [64, 70000, 1]",
       {"step 2 (launch row_scale), grid[1]: 70000 is above CUDA's limit of 65535"}},
      {"\"grid\": [64, 1, 1]", "\"grid\": [2147483648]", {"grid[0]: 2147483648 is above CUDA's limit of 2147483647"}},
      {"\"grid\": [64, 1, 1]", "\"grid\": [0]", {"step 2 (launch row_scale), grid[0]: 0 is below 1"}},
      {"\"grid\": [64, 1, 1]", "\"grid\": []", {"step 2 (launch row_scale), grid: should have one to three sizes"}},
      {"\"grid\": [64, 1, 1], ", "", {"step 2 (launch row_scale): the key \"grid\" is missing"}},
      {"\"block\": [32, 1, 1]", "\"block\": [32, 33, 1]", {"block: 1056 threads are above CUDA's limit of 1024"}},
      {"\"block\": [32, 1, 1]", "\"block\": [1, 1, 65]", {"block[2]: 65 is above CUDA's limit of 64"}},
      {"\"shared_bytes\": 0", "\"shared_bytes\": 232449", {"shared_bytes: 232449 is not in 0 to 232448"}},
      {"\"shared_bytes\": 0", "\"shared_bytes\": -1", {"shared_bytes: -1 is not in"}},
      {"\"shared_bytes\"", "\"shared_byte\"", {"step 2", "did you mean \"shared_bytes\"?"}},
      {"{\"in\": \"a\"}", "{\"input\": \"a\"}", {"step 2 (launch row_scale), args[0]: unknown kind \"input\""}},
      {"{\"in\": \"a\"}", "{}", {"step 2 (launch row_scale), args[0]: should be an object with one key"}},
      {"{\"in\": \"a\"}", "{\"in\": \"a\", \"out\": \"y\"}", {"args[0]: should be an object with one key"}},
      {"{\"in\": \"a\"}", "{\"in\": 3}", {"args[0].in: should be a string, but is an integer"}},
      {"{\"i32\": 32}", "{\"i32\": 32.0}", {"args[3].i32: should be an integer, but is a number"}},
      {"{\"i32\": 32}", "{\"i32\": 2147483648}", {"args[3].i32: 2147483648 does not fit 32 bits"}},
      {"{\"i32\": 32}", "{\"f32\": 1e39}", {"args[3].f32: 1e+39 does not fit a float"}},
      {"{\"i32\": 32}", "{\"f32\": \"infinity\"}", {"args[3].f32: should be a number, \"inf\""}},
      {"{\"i32\": 32}", "{\"f32\": true}", {"args[3].f32: should be a number"}},
      {"\"args\": {\"self\": \"y\"}", "\"args\": [\"y\"]", {"step 3 (aten::relu), args: should be an object"}},
      {"\"args\": {\"self\": \"y\"}",
       "\"args\": {\"self\": {\"a\": 1}}",
       {"step 3 (aten::relu), args.self: should be null"}},
      {"\"args\": {\"self\": \"y\"}",
       "\"args\": {\"self\": [[1]]}",
       {"step 3 (aten::relu), args.self: should be null"}},
      {"\"out\": [\"z\"]", "\"out\": \"z\"", {"step 3 (aten::relu), out: should be an array of strings"}},
      {"\"out\": [\"z\"]",
       "\"out\": [\"z\"], \"precision\": \"bf16\"",
       {"step 3 (aten::relu), precision: there is no \"bf16\""}},
      {"\"outputs\": [\"z\"]", "\"outputs\": []", {"outputs: there are none"}},
      {"\"outputs\": [\"z\"]",
       "\"outputs\": [\"z\"], \"execution\": {\"lanes\": 17}",
       {"execution, lanes: 17 is not in 1 to 16"}},
      {"\"outputs\": [\"z\"]",
       "\"outputs\": [\"z\"], \"execution\": {\"graph\": 1}",
       {"execution, graph: should be a boolean"}},
      {"\"outputs\": [\"z\"]", "\"outputs\": [\"z\"], \"execution\": {\"lane\": 1}", {"did you mean \"lanes\"?"}},
      {"\"outputs\": [\"z\"]",
       "\"outputs\": [\"z\"], \"headers\": \"cub\"",
       {"headers: should be an array of strings"}},
      {"\"outputs\": [\"z\"]",
       "\"outputs\": [\"z\"], \"headers\": [\"cuda\", \"cutlas\"]",
       {"headers[1]: there is no set \"cutlas\"; did you mean \"cutlass\"?"}},
      {"\"outputs\": [\"z\"]",
       "\"outputs\": [\"z\"], \"headers\": [\"cub\", \"cub\"]",
       {"headers[1]: \"cub\" appears twice"}},
      {"\"outputs\": [\"z\"] }", "\"outputs\": [\"z\"] } x", {"JSON, line 8", "after the end"}},
      {"\"outputs\": [\"z\"] }", "\"outputs\": [\"z\"", {"JSON, line"}},
  };
  for (const auto& c : cases) {
    const auto message = problem_of(replaced(row_scale_text, c.from, c.to));
    for (const auto& part : c.wanted)
      EXPECT_THAT(message, HasSubstr(part)) << c.from << " -> " << c.to;
  }
}

TEST(read_program, rejects_texts_that_are_not_programs) {
  EXPECT_THAT(problem_of(""), HasSubstr("there is no head"));
  EXPECT_THAT(problem_of("---\n__global__ void f() {}\n"), HasSubstr("there is no head"));
  EXPECT_THAT(problem_of("[]"), HasSubstr("the head: should be an object, but is an array"));
  EXPECT_THAT(problem_of(std::string("{\"format\":\0 1}", 14)), HasSubstr("JSON"));
  EXPECT_THAT(problem_of("{\"name\": \"\xff\xfe\"}"), HasSubstr("JSON"));
  EXPECT_THAT(problem_of(std::string(5 << 20, ' ')), HasSubstr("above the limit of 4194304"));
}

}  // namespace
}  // namespace cudal1
