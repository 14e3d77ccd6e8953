// The float64 program, which computes exact outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/program/examples.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

TEST(to_float64, widens_inputs_weights_and_dtype_arguments) {
  const auto p = read_program(std::string_view(
      R"({"format":1,"name":"m","inputs":[{"name":"x","dtype":"float32","shape":[4,6],"strides":[1,4]},
      {"name":"i","dtype":"int64","shape":[4]},{"name":"h","dtype":"bfloat16","shape":[4,6]}],
      "weights":[{"name":"w","dtype":"float16","shape":[6]}],
      "setup":[{"aten":"aten::relu","args":{"self":"w"},"out":["v"]}],
      "steps":[{"aten":"aten::softmax.int","args":{"self":"h","dim":1,"dtype":"float32"},"out":["s"],"precision":"float32"},
      {"aten":"aten::mul.Tensor","args":{"self":"s","other":"x"},"out":["y"]},
      {"aten":"aten::mul.Tensor","args":{"self":"y","other":"v"},"out":["z"]},
      {"aten":"aten::sum.dim_IntList","args":{"self":"i","dim":[0],"dtype":"float32"},"out":["t"]},
      {"aten":"aten::sum.dim_IntList","args":{"self":"i","dim":[0],"dtype":"int64"},"out":["u"]}],
      "outputs":["z","t","u"]})"));
  ASSERT_TRUE(p) << p.error().message;
  const auto before = check_program(*p);
  ASSERT_TRUE(before) << before.error().message;
  const auto wide = to_float64(*p);
  ASSERT_TRUE(wide) << wide.error().message;
  const auto checked = check_program(*wide);
  ASSERT_TRUE(checked) << checked.error().message;
  for (const auto& [name, type] : checked->types) {
    const auto was = before->types.at(name).type;
    EXPECT_EQ(type.type, is_floating(was) ? dtype::float64 : was) << name;
    EXPECT_EQ(type.shape, before->types.at(name).shape) << name;
    EXPECT_EQ(type.strides, before->types.at(name).strides) << name;
  }
  EXPECT_EQ(std::get<aten_step>(wide->steps[0]).precision, "") << "precision is for float32";
}

TEST(to_float64, a_conversion_that_is_an_output_stays_a_tensor_of_its_own) {
  const auto p = read_program(std::string_view(
      R"({"format":1,"name":"m","inputs":[{"name":"x","dtype":"bfloat16","shape":[4,6]}],
      "steps":[{"aten":"aten::to.dtype","args":{"self":"x","dtype":"float32"},"out":["y"]}],"outputs":["y"]})"));
  ASSERT_TRUE(p) << p.error().message;
  const auto wide = to_float64(*p);
  ASSERT_TRUE(wide) << wide.error().message;
  EXPECT_TRUE(check_program(*wide));
}

TEST(to_float64, takes_the_first_of_equal_elements) {
  const auto wide_of = [](const std::string& arguments, const std::string& results) {
    const auto p = read_program(
        R"({"format":1,"name":"m","inputs":[{"name":"x","dtype":"float16","shape":[4,6]}],
      "steps":[{"aten":"aten::topk","args":{"self":"x","k":2)" +
        arguments + R"(},"out":[)" + results + R"(]}],"outputs":["i"]})");
    EXPECT_TRUE(p) << p.error().message;
    auto wide = to_float64(*p);
    EXPECT_TRUE(wide) << wide.error().message;
    const auto checked = check_program(*wide);
    EXPECT_TRUE(checked) << checked.error().message;
    EXPECT_EQ(checked->types.at("i"), contiguous(dtype::int64, {4, 2}));
    return *wide;
  };
  for (const std::string results : {R"("v","i")", R"("","i")"}) {
    const auto greatest = wide_of("", results);
    const auto& sort = std::get<aten_step>(greatest.steps[0]);
    EXPECT_EQ(sort.op, "aten::sort.stable");
    EXPECT_THAT(sort.args, testing::Contains(testing::Pair("descending", json(true))));
    EXPECT_THAT(sort.args, testing::Contains(testing::Pair("stable", json(true))));
  }
  EXPECT_THAT(std::get<aten_step>(wide_of(R"(,"largest":false)", R"("v","i")").steps[0]).args,
              testing::Contains(testing::Pair("descending", json(false))));
  // Of results in no order nothing says which the first is.
  EXPECT_EQ(std::get<aten_step>(wide_of(R"(,"sorted":false)", R"("v","i")").steps[0]).op, "aten::topk");
}

TEST(to_float64, rejects_kernels_and_floats_made_from_integers) {
  const auto with_kernel = to_float64(*read_program(row_scale_text));
  ASSERT_FALSE(with_kernel);
  EXPECT_THAT(with_kernel.error().message, HasSubstr("row_scale: a program with kernels has no float64 form"));
  const auto p = read_program(std::string_view(
      R"({"format":1,"name":"d","inputs":[{"name":"i","dtype":"int64","shape":[4]}],
      "steps":[{"aten":"aten::div.Tensor","args":{"self":"i","other":"i"},"out":["y"]}],"outputs":["y"]})"));
  ASSERT_TRUE(p);
  const auto wide = to_float64(*p);
  ASSERT_FALSE(wide);
  EXPECT_THAT(wide.error().message, HasSubstr("\"y\" stays float32"));
}

}  // namespace
}  // namespace cudal1
