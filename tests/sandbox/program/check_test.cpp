// Checks of what the steps of a program mean together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/program/slow_first_call.hpp"
#include "tests/sandbox/program/examples.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

TEST(check_program, types_every_value) {
  const auto checked = check_program_text(prepacked_text);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(checked->types.at("wt").text(), "float32[16, 4] with strides [1, 16]");
  EXPECT_EQ(checked->types.at("h").text(), "float32[8, 4]");
  EXPECT_EQ(checked->view_of, (std::map<std::string, std::string>{{"wt", "doubled"}}));
  ASSERT_EQ(checked->setup_calls.size(), 2u);
  ASSERT_EQ(checked->calls.size(), 3u);
  EXPECT_EQ(checked->calls[0].op, find_operator("aten::mm"));
  EXPECT_EQ(checked->calls[1].op, nullptr);
  EXPECT_EQ(checked->calls[2].op, nullptr);
  EXPECT_EQ(checked->results[0].at(0).type, checked->types.at("h"));
  EXPECT_FALSE(checked->is_pure_aten());
}

TEST(check_program, follows_views_of_views_to_their_base) {
  const auto text =
      R"({"format":1,"name":"v","inputs":[{"name":"x","dtype":"float32","shape":[4,6]}],"steps":[
      {"aten":"aten::relu","args":{"self":"x"},"out":["r"]},
      {"aten":"aten::transpose.int","args":{"self":"r","dim0":0,"dim1":1},"out":["t"]},
      {"aten":"aten::transpose.int","args":{"self":"t","dim0":0,"dim1":1},"out":["y"]}],"outputs":["y"]})";
  const auto checked = check_program_text(text);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(checked->view_of.at("t"), "r");
  EXPECT_EQ(checked->view_of.at("y"), "r");
  EXPECT_TRUE(checked->is_pure_aten());
}

// A replacement in row_scale_text and a part of the resulting error message.
struct broken {
  std::string from, to, wanted;
};

TEST(check_program, rejects_unknown_and_duplicate_names) {
  const std::string relu = R"({"aten": "aten::relu", "args": {"self": "y"}, "out": ["z"]})";
  for (const auto& c : std::vector<broken>{
           {"\"alloc\": \"y\"", "\"alloc\": \"a\"", "step 1 (alloc a): the name \"a\" is taken by inputs[0] (a)"},
           {"\"name\": \"b\"", "\"name\": \"a\"", "inputs[1] (a): the name \"a\" is taken by inputs[0] (a)"},
           {"\"out\": [\"z\"]", "\"out\": [\"y\"]",
            "step 3 (aten::relu), out[0]: the name \"y\" is taken by step 1 (alloc y)"},
           {"{\"in\": \"a\"}", "{\"in\": \"z\"}",
            "step 2 (launch row_scale), args[0]: there is no value \"z\" before this "
            "step; step 3 (aten::relu) binds it later"},
           {"{\"self\": \"y\"}", "{\"self\": \"z\"}",
            "step 3 (aten::relu), args.self: there is no value \"z\" before this step"},
           {"{\"self\": \"y\"}", "{\"self\": \"Y\"}", "args.self: there is no value \"Y\"; did you mean \"y\"?"},
           {"\"outputs\": [\"z\"]", "\"outputs\": [\"zz\"]",
            "outputs[0]: there is no value \"zz\"; did you mean \"z\"?"},
           {"\"outputs\": [\"z\"]", "\"outputs\": [\"z\", \"z\"]", "outputs[1]: \"z\" appears twice"}})
    EXPECT_THAT(problem_of(replaced(row_scale_text, c.from, c.to)), HasSubstr(c.wanted)) << c.to;
}

TEST(check_program, lets_kernels_write_only_memory_that_steps_own) {
  for (const auto& c : std::vector<broken>{
           {"{\"out\": \"y\"}", "{\"out\": \"b\"}",
            "step 2 (launch row_scale), args[2]: \"b\" is an input and may not be written"},
           {"{\"out\": \"y\"}", "{\"inout\": \"b\"}", "\"b\" is an input and may not be written"},
           {"{\"in\": \"b\"}, {\"out\": \"y\"}", "{\"out\": \"y\"}, {\"out\": \"y\"}",
            "\"y\" is written by args[1] already"},
           {"{\"in\": \"a\"}", "{\"in\": \"y\"}",
            "step 2 (launch row_scale), args[0]: \"y\" is read before any kernel has "
            "written it (step 1 (alloc y))"},
           {"{\"out\": \"y\"}", "{\"inout\": \"y\"}", "args[2]: \"y\" is read before any kernel has written it"},
           {"{\"out\": \"y\"}", "{\"in\": \"y\"}", "args[2]: \"y\" is read before any kernel has written it"}})
    EXPECT_THAT(problem_of(replaced(row_scale_text, c.from, c.to)), HasSubstr(c.wanted)) << c.to;
}

const std::string kernel =
    "\n---\n__global__ void f(float* p) { p[0] = 1; }\n__global__ void g(const float* p, float* q) { q[0] = p[0]; }\n";

std::string with_steps(const std::string& steps, const std::string& outputs = "\"y\"", const std::string& setup = "") {
  return R"({"format":1,"name":"s","inputs":[{"name":"x","dtype":"float32","shape":[4,6]}],)"
         R"("weights":[{"name":"w","dtype":"float32","shape":[4,6]}],"setup":[)" +
         setup + R"(],"steps":[)" + steps + R"(],"outputs":[)" + outputs + "]}" + kernel;
}
const std::string alloc_y = R"({"alloc":"y","dtype":"float32","shape":[4,6]})";
std::string launch_f(const std::string& arg) {
  return R"({"launch":"f","grid":[1],"block":[1],"args":[)" + arg + "]}";
}
std::string launch_g(const std::string& args) {
  return R"({"launch":"g","grid":[1],"block":[1],"args":[)" + args + "]}";
}
std::string transpose(const std::string& from, const std::string& to) {
  return R"({"aten":"aten::transpose.int","args":{"self":")" + from + R"(","dim0":0,"dim1":1},"out":[")" + to + "\"]}";
}
std::string relu(const std::string& from, const std::string& to) {
  return R"({"aten":"aten::relu","args":{"self":")" + from + R"("},"out":[")" + to + "\"]}";
}

TEST(check_program, accepts_in_place_updates_of_owned_memory) {
  EXPECT_EQ(problem_of(with_steps(alloc_y + "," + launch_f(R"({"out":"y"})") + "," + launch_f(R"({"inout":"y"})"))),
            "");
  EXPECT_EQ(problem_of(with_steps(relu("x", "y") + "," + launch_f(R"({"inout":"y"})"))), "");
}

TEST(check_program, rejects_writes_that_change_other_values) {
  EXPECT_THAT(problem_of(with_steps(transpose("x", "t") + "," + launch_f(R"({"inout":"t"})") + "," + relu("t", "y"))),
              HasSubstr("step 2 (launch f), args[0]: \"t\" is a view of \"x\", an input and may not be written"));
  EXPECT_THAT(problem_of(with_steps(transpose("w", "t") + "," + launch_f(R"({"inout":"t"})") + "," + relu("t", "y"))),
              HasSubstr("a weight and may not be written"));
  EXPECT_THAT(problem_of(with_steps(relu("x", "r") + "," + transpose("r", "y") + "," + launch_f(R"({"inout":"y"})"))),
              HasSubstr("\"y\" is a view of \"r\"; only values that own their memory may be written"));
  EXPECT_THAT(problem_of(with_steps(relu("x", "r") + "," + transpose("r", "y") + "," + launch_f(R"({"inout":"r"})"))),
              HasSubstr("\"r\" has the view \"y\", which a write would change"));
  EXPECT_THAT(
      problem_of(with_steps(relu("x", "y") + "," + launch_g(R"({"in":"y"},{"inout":"y"})"))),
      HasSubstr("step 2 (launch g), args[0]: \"y\" is written by args[1] of the same launch; pass it once, as inout"));
}

TEST(check_program, requires_memory_to_be_written_before_it_is_read_or_output) {
  EXPECT_THAT(problem_of(with_steps(alloc_y)), HasSubstr("outputs[0]: nothing has written \"y\" (step 1 (alloc y))"));
  EXPECT_THAT(problem_of(with_steps(alloc_y + "," + relu("y", "z"), "\"z\"")),
              HasSubstr("step 2 (aten::relu), args.self: \"y\" is read before any kernel has written it"));
  EXPECT_THAT(problem_of(with_steps(alloc_y + "," + transpose("y", "t"), "\"t\"")),
              HasSubstr("read before any kernel"));
}

TEST(check_program, requires_outputs_to_own_their_memory) {
  EXPECT_THAT(problem_of(with_steps(relu("x", "y"), "\"x\"")),
              HasSubstr("outputs[0]: \"x\" is an input; an output must"));
  EXPECT_THAT(problem_of(with_steps(transpose("w", "y"))),
              HasSubstr("\"y\" is a view of \"w\", a weight; an output must"));
  EXPECT_THAT(problem_of(with_steps(relu("x", "z"), "\"y\"", relu("w", "y"))),
              HasSubstr("\"y\" is made by setup; an output"));
}

TEST(check_program, lets_setup_read_weights_only_and_steps_only_read_setup_values) {
  EXPECT_EQ(problem_of(with_steps(relu("v", "y"), "\"y\"", relu("w", "u") + "," + transpose("u", "v"))), "");
  EXPECT_THAT(
      problem_of(with_steps(relu("u", "y"), "\"y\"", relu("x", "u"))),
      HasSubstr(
          "setup step 1 (aten::relu), args.self: setup runs once and may read weights only, and \"x\" is an input"));
  EXPECT_THAT(
      problem_of(with_steps(launch_f(R"({"inout":"u"})") + "," + relu("u", "y"), "\"y\"", relu("w", "u"))),
      HasSubstr(
          "step 1 (launch f), args[0]: \"u\" is made by setup (setup step 1 (aten::relu)); steps may only read it"));
  EXPECT_THAT(problem_of(with_steps(relu("u", "y"), "\"y\"", R"({"alloc":"u","dtype":"float32","shape":[4]})")),
              HasSubstr("\"u\" is read before any kernel has written it (setup step 1 (alloc u))"));
}

TEST(check_program, compares_launches_with_the_kernels_of_the_source) {
  for (const auto& c : std::vector<broken>{
           {"\"launch\": \"row_scale\"", "\"launch\": \"row_scales\"",
            "step 2 (launch row_scales), launch: the source has no \"__global__ void row_scales(\"; did you mean "
            "\"row_scale\"?"},
           {", {\"i32\": 32}", "", "args: the kernel has 4 parameters, but 3 arguments are passed"},
           {"{\"i32\": 32}", "{\"i64\": 32}", "args[3]: the parameter \"int n\" takes i32, but i64 is passed"},
           {"{\"i32\": 32}", "{\"f32\": 32}", "args[3]: the parameter \"int n\" takes i32, but f32 is passed"},
           {"{\"i32\": 32}", "{\"in\": \"a\"}", "args[3]: in passes a tensor, but the parameter \"int n\" is a scalar"},
           {"{\"in\": \"a\"}", "{\"i64\": 4096}", "args[0]: i64 passes a scalar, but the parameter"},
           {"int n)", "short n)", "args[3]: the parameter \"short n\" cannot be passed"},
           {"__global__ void row_scale", "__device__ void row_scale", "it has no kernel at all"},
           {"// Multiplies row i of b by a[i].\n__global__", "// __global__", "it has no kernel at all"}})
    EXPECT_THAT(problem_of(replaced(row_scale_text, c.from, c.to)), HasSubstr(c.wanted)) << c.to;
  EXPECT_EQ(problem_of(replaced(row_scale_text, "int n)", "index_type n)")), "") << "a typedef is not recognised";
}

TEST(check_program, accepts_tensor_maps_of_tensors_that_have_them) {
  EXPECT_EQ(problem_of(hopper_text), "");
  const std::string box = R"("box": [32, 64], "swizzle": 128)", tiles = "step 2 (launch tiles), args[0]";
  for (const auto& c : std::vector<broken>{
           {box, R"("box": [32, 64], "swizzle": 64)", ", map: with swizzle 64 a row of the box has 64 bytes, but this"},
           {box, R"("box": [32, 48], "swizzle": 96)", ", map: swizzle: 96 is not 0, 32, 64 or 128"},
           {box, R"("box": [512, 64])", ", map: box[0]: 512 is not in 1 to 256"},
           {box, R"("box": [32, 4])", ", map: a row of the box has 8 bytes, which is no multiple of 16"},
           {box, R"("box": [64])", ", map: box has 1 sizes, but the tensor has 2 dimensions"},
           {box, R"("swizzle": 128)", ", map: the key \"box\" is missing"},
           {box, R"("box": [32, 64], "boxes": 1)", ", map: unknown key \"boxes\""},
           {R"("shape": [100, 64]}],)", R"("shape": [100, 64], "strides": [1, 100]}],)",
            ", map: the tensor's stride in dimension 0 is 2 bytes; it must be a multiple of 16"},
           {R"("shape": [100, 64]}],)", R"("shape": [100, 64], "strides": [128, 2]}],)",
            ", map: the tensor's stride in dimension 1 is 4 bytes; the elements of the last one must lie side by side"},
           {"tensor_map a", "other_map a",
            ": it passes a tensor map, but the parameter is \"const __grid_constant__ other_map a\"; declare it as "
            "const "
            "__grid_constant__ tensor_map a"},
           {"const __grid_constant__ tensor_map a", "const tensor_map& a",
            ": it passes a tensor map, but the parameter"}})
    EXPECT_THAT(problem_of(replaced(hopper_text, c.from, c.to)), HasSubstr(tiles + c.wanted)) << c.to;
  EXPECT_THAT(problem_of(replaced(hopper_text, R"(, "map": {"box": [32, 64], "swizzle": 128})", "")),
              HasSubstr("takes a tensor map; write {\"in\": ..., \"map\": {\"box\": [...]}}"));
  EXPECT_THAT(problem_of(replaced(hopper_text, R"({"i32": 6400})", R"({"i32": 6400, "map": {"box": [1]}})")),
              HasSubstr("only a tensor may have a map"));
}

TEST(check_program, wants_launches_of_the_kind_that_kernels_need) {
  EXPECT_THAT(problem_of(replaced(hopper_text, R"("cooperative": true, )", "")),
              HasSubstr("step 4 (launch all): the kernel calls grid_sync()"));
  EXPECT_THAT(problem_of(replaced(hopper_text, "  wait_for_previous_kernel();\n", "")),
              HasSubstr("step 4 (launch all): a programmatic launch may begin before"));
  EXPECT_THAT(problem_of(replaced(hopper_text, R"("cooperative": true)", R"("cooperative": 1)")),
              HasSubstr("cooperative: should be a boolean"));
  EXPECT_THAT(
      problem_of(replaced(hopper_text, R"("outputs": ["y"])", R"("outputs": ["y"], "execution": {"lanes": 2})")),
      HasSubstr("a programmatic launch needs a program of one lane"));
}

TEST(check_program, finds_operators_by_their_full_name) {
  EXPECT_THAT(
      problem_of(replaced(row_scale_text, "aten::relu", "aten::reluu")),
      HasSubstr(
          "step 3 (aten::reluu), aten: the operator \"aten::reluu\" is not on the list; did you mean \"aten::relu\"?"));
  EXPECT_THAT(problem_of(replaced(row_scale_text, "aten::relu", "aten::system")), HasSubstr("is not on the list"));
  EXPECT_THAT(problem_of(replaced(row_scale_text, "{\"self\": \"y\"}", "{\"slef\": \"y\"}")),
              HasSubstr("step 3 (aten::relu), args: aten::relu has no argument \"slef\"; did you mean \"self\"?"));
  EXPECT_THAT(problem_of(replaced(row_scale_text, "[\"z\"]}]", "[\"z\", \"q\"]}]")),
              HasSubstr("step 3 (aten::relu), out: aten::relu has 1 results, but 2 are named"));
}

TEST(check_program, never_lets_sizes_overflow) {
  const std::string huge = "1099511627776";  // 2^40: two of them are 2^80
  EXPECT_THAT(problem_of(replaced(row_scale_text, "[64]", "[" + huge + ", " + huge + "]")),
              HasSubstr("inputs[0] (a): float32[" + huge + ", " + huge + "] has more than"));
  EXPECT_THAT(problem_of(replaced(row_scale_text, "[64]", "[0, " + huge + ", " + huge + "]")),
              HasSubstr("has more than"))
      << "an empty tensor's sizes count too";
  EXPECT_THAT(problem_of(replaced(row_scale_text, "[64]", "[64], \"strides\": [9223372036854775807]")),
              HasSubstr("has more than"));
  EXPECT_THAT(
      problem_of(replaced(row_scale_text, "{\"alloc\": \"y\", \"dtype\": \"float32\", \"shape\": [64, 32]}",
                          "{\"alloc\": \"y\", \"dtype\": \"float32\", \"shape\": [9223372036854775807, 2, 2]}")),
      HasSubstr("step 1 (alloc y): float32["));
  program_limits tight;
  tight.max_total_bytes = 64 * 32 * 4 * 3;
  const auto checked = check_program_text(row_scale_text, tight);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message,
              HasSubstr("step 3 (aten::relu), out[0]: with float32[64, 32] all tensors together"));
  tight = {};
  tight.max_steps = 2;
  EXPECT_THAT(check_program_text(row_scale_text, tight).error().message,
              HasSubstr("steps: 3 are above the limit of 2"));
}

TEST(check_program, rejects_inputs_whose_elements_overlap) {
  EXPECT_THAT(problem_of(replaced(row_scale_text, "[64, 32]}]", "[64, 32], \"strides\": [0, 1]}]")),
              HasSubstr("inputs[1] (b), strides[0]: elements overlap in memory with a stride of 0"));
  EXPECT_THAT(problem_of(replaced(row_scale_text, "[64, 32]}]", "[64, 32], \"strides\": [31, 1]}]")),
              HasSubstr("overlap"));
  EXPECT_EQ(problem_of(replaced(row_scale_text, "[64, 32]}]", "[64, 32], \"strides\": [1, 64]}]")), "");
  EXPECT_EQ(problem_of(replaced(row_scale_text, "[64, 32]}]", "[64, 32], \"strides\": [40, 1]}]")), "");
}

TEST(check_program, applies_the_same_rules_to_programs_made_in_memory) {
  const auto p = read_program(row_scale_text);
  ASSERT_TRUE(p);
  auto bad = *p;
  std::get<launch_step>(bad.steps[1]).grid[1] = 70000;
  EXPECT_THAT(check_program(bad).error().message, HasSubstr("grid[1]: 70000 is above"));
  bad = *p;
  bad.source = "#include <x>\n" + bad.source;
  EXPECT_THAT(check_program(bad).error().message, HasSubstr("#include"));
  bad = *p;
  std::get<launch_step>(bad.steps[1]).args[3].integer = int64_t{1} << 40;
  EXPECT_THAT(check_program(bad).error().message, HasSubstr("does not fit 32 bits"));
  bad = *p;
  bad.inputs[0].type.strides.clear();
  EXPECT_THAT(check_program(bad).error().message, HasSubstr("strides: should have 1 numbers"));
  bad = *p;
  std::get<alloc_step>(bad.steps[0]).type.strides = {1, 64};
  EXPECT_THAT(check_program(bad).error().message, HasSubstr("an allocation is contiguous"));
  bad = *p;
  auto& call = std::get<aten_step>(bad.steps[2]);
  call.op = "aten::mul.Scalar";
  call.args.emplace_back("other", std::numeric_limits<double>::infinity());
  const auto checked = check_program(bad);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(*read_program(print_program(checked->text)), checked->text);
}

// A language model reads them.
TEST(messages, say_what_to_write_instead) {
  struct mistake {
    std::string_view from, to, advice;
  };
  const mistake mistakes[] = {
      {"{ \"format\"", "```json\n{ \"format\"", "a program is one JSON object (without comments"},
      {"{\"i32\": 32}]}", "{\"i32\": 32},]}", "without a comma before ] or }"},
      {"\n---\n", "\n", "then a line that is exactly ---, then the CUDA source"},
      {"{\"i32\": 32}", "{\"int\": 32}", "did you mean \"i32\"?"},
      {"{\"i32\": 32}", "{\"float\": 32}", "did you mean \"f32\"?"},
      {"{\"out\": \"y\"}", "{\"output\": \"y\"}", "did you mean \"out\"?"},
      {"[64, 1, 1]", "[\"4 * 16\", 1, 1]", "grid: \"4 * 16\" is a string; write the number itself"},
      {"[64, 1, 1]", "64", "grid: should be an array of integers, such as [64, 1, 1], but is an integer"},
      {"\"launch\": \"row_scale\"", "\"kernel\": \"row_scale\"", "{\"launch\": KERNEL, \"grid\": ..."},
      {"{\"self\": \"y\"}", "[\"y\"]", "the arguments by name, such as {\"self\": \"x\"}"},
      {"\"out\": [\"z\"]", "\"out\": \"z\"", "an array of strings, such as [\"z\"], but is a string"},
      {"aten::relu", "torch.relu", "did you mean \"aten::relu\"?"},
      {"aten::relu", "aten::add", "its overloads are aten::add.Scalar, aten::add.Tensor"},
      {"{\"out\": \"y\"}", "{\"out\": \"b\"}", "\"b\" is an input and may not be written; alloc a value"},
      {"{\"out\": \"y\"}", "{\"out\": \"q\"}", "no value \"q\"; a step before this one should alloc it"},
      {", {\"i32\": 32}", "",
       "but 3 arguments are passed; write one entry for each parameter, in its order: it is row_scale("},
      {"const float* b", "const float& b", "tensors are passed to pointers, such as const float*"},
      {"__global__ void row_scale", "__global__ float row_scale", "kernels follow the head after a line ---"},
      {"// Multiplies", "#include <cuda_fp16.h>\n// Multiplies", "\"headers\": [\"cuda\"]"}};
  for (const auto& m : mistakes)
    EXPECT_THAT(problem_of(replaced(row_scale_text, m.from, m.to)), HasSubstr(std::string(m.advice))) << m.to;
}

// A session counts them in the text, a runner in the program: they give the first call its time.
TEST(check_program, counts_the_steps_that_a_library_compiles) {
  constexpr std::string_view convolution =
      R"-({"aten": "cudal1::convolution_graph", "args": {"input": "x", "weight": "w", "operands": [], "stride": [1, 1],
      "padding": [0, 0], "dilation": [1, 1], "transposed": false, "output_padding": [0, 0], "groups": 1, "graph": "relu",
      "engine": 0}, "out": [")-";
  const auto checked = check_program_text(
      R"({"format": 1, "name": "two", "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 2, 4, 4]}],
          "weights": [{"name": "w", "dtype": "float32", "shape": [2, 2, 1, 1]}], "steps": [)" +
      std::string(convolution) + R"(a"]}, )" + std::string(convolution) +
      R"(b"]}, {"aten": "aten::add.Tensor", "args": {"self": "a", "other": "b"}, "out": ["y"]}], "outputs": ["y"]})");
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(steps_compiled_at_first(*checked), 2);
  EXPECT_EQ(steps_compiled_at_first(print_program(checked->text)), 2);
  EXPECT_EQ(steps_compiled_at_first(std::string_view(row_scale_text)), 0);
}

}  // namespace
}  // namespace cudal1
