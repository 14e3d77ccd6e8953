// What memory programs need, and programs in parts of the batch.
#include "sandbox/program/batch_parts.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/program/memory_need.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

constexpr int64_t mib = int64_t{1} << 20;

checked_program checked(const std::string& declarations, const std::string& steps, const std::string& outputs) {
  auto p = check_program_text(R"({"format":1,"name":"p",)" + declarations + R"(,"steps":[)" + steps +
                              R"(],"outputs":[)" + outputs + "]}");
  if (!p) throw std::runtime_error(p.error().message);
  return std::move(*p);
}

// `name` = op(`of`), elementwise.
std::string unary(const std::string& op, const std::string& of, const std::string& name) {
  return fmt::format(R"({{"aten":"aten::{}","args":{{"self":"{}"}},"out":["{}"]}})", op, of, name);
}

const std::string one_mib = R"("inputs":[{"name":"x","dtype":"float32","shape":[512,512]}])";

TEST(memory_need, is_that_of_the_step_where_most_tensors_live) {
  const auto chain =
      checked(one_mib, unary("exp", "x", "a") + "," + unary("sin", "a", "b") + "," + unary("cos", "b", "y"), R"("y")");
  EXPECT_EQ(memory_need_of(chain).bytes, 2 * mib) << "each one is made of the one before";
  EXPECT_EQ(memory_need_of(chain).where, "step 2 (aten::sin)");
  const auto kept = checked(one_mib,
                            unary("exp", "x", "a") + "," + unary("sin", "a", "b") + "," +
                                R"({"aten":"aten::add.Tensor","args":{"self":"a","other":"b"},"out":["y"]})",
                            R"("y","b")");
  EXPECT_EQ(memory_need_of(kept).bytes, 3 * mib) << "two operands and the sum";
}

TEST(memory_need, a_view_keeps_its_memory_and_needs_none) {
  const auto p = checked(one_mib,
                         unary("exp", "x", "a") + R"(,{"aten":"aten::t","args":{"self":"a"},"out":["b"]},)" +
                             unary("sin", "x", "c") + "," + unary("cos", "c", "d") + "," +
                             R"({"aten":"aten::add.Tensor","args":{"self":"b","other":"d"},"out":["y"]})",
                         R"("y")");
  EXPECT_EQ(memory_need_of(p).bytes, 3 * mib) << "a, through its view, beside c and d, then beside d and y";
}

TEST(memory_need, counts_allocations_setup_and_results_that_nothing_reads) {
  const auto p = check_program_text(
      R"({"format":1,"name":"p","inputs":[{"name":"x","dtype":"float32","shape":[512,512]}],
      "weights":[{"name":"w","dtype":"float32","shape":[512,512]}],
      "setup":[{"aten":"aten::exp","args":{"self":"w"},"out":["u"]},{"aten":"aten::sin","args":{"self":"u"},"out":["v"]}],
      "steps":[{"alloc":"a","dtype":"float32","shape":[512,512]},
               {"launch":"k","grid":[1,1,1],"block":[1,1,1],"args":[{"in":"x"},{"in":"v"},{"out":"a"}]},
               {"aten":"aten::sort","args":{"self":"a"},"out":["y",""]}],"outputs":["y"]})"
      "\n---\n__global__ void k(const float* x, const float* v, float* a) {}\n");
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(memory_need_of(*p).bytes, 5 * mib) << "v, a, y, and the places, which have 8 bytes each";
}

TEST(memory_need, says_why_a_program_is_too_large) {
  const auto p = checked(one_mib, unary("exp", "x", "y"), R"("y")");
  EXPECT_EQ(why_too_large(p, mib), "");
  EXPECT_EQ(why_too_large(p, 0), "") << "no limit";
  EXPECT_EQ(why_too_large(p, mib - 1),
            "its tensors need at least 1 MiB at a time, in step 1 (aten::exp), and 1024.0 KiB are allowed");
}

const std::string volume =
    R"("inputs":[{"name":"x","dtype":"float32","shape":[8,4,16,16,16]}],)"
    R"("weights":[{"name":"w","dtype":"float32","shape":[64,4,3,3,3]},{"name":"b","dtype":"float32","shape":[64]}])";
const std::string convolved = R"({"aten":"aten::conv3d","args":{"input":"x","weight":"w","bias":"b"},"out":["c"]},)"
                              R"({"aten":"aten::relu","args":{"self":"c"},"out":["r"]},)"
                              R"({"aten":"aten::mean.dim","args":{"self":"r","dim":[2,3,4]},"out":["y"]})";

TEST(batch_parts, the_result_of_a_convolution_is_made_part_by_part) {
  const auto whole = checked(volume, convolved, R"("y")");
  const auto parts = in_parts(whole, 4);
  ASSERT_TRUE(parts) << parts.error().message;
  const int64_t result = int64_t{8} * 64 * 14 * 14 * 14 * 4;
  EXPECT_EQ(memory_need_of(whole).bytes, 2 * result);
  EXPECT_LT(memory_need_of(*parts).bytes, 2 * result / 4 + 8 * 64 * 4 + 1);
  EXPECT_EQ(parts->types.at("y"), whole.types.at("y"));
  EXPECT_EQ(parts->text.inputs, whole.text.inputs);
  EXPECT_EQ(parts->text.steps.size(), 4 * (1 + 3) + 1U);
}

TEST(batch_parts, are_as_few_as_fit) {
  const auto whole = checked(volume, convolved, R"("y")");
  const int64_t need = memory_need_of(whole).bytes;
  EXPECT_EQ(fit_in_parts(whole, need)->parts, 1);
  EXPECT_EQ(fit_in_parts(whole, 0)->parts, 1);
  EXPECT_EQ(fit_in_parts(whole, need - 1)->parts, 2);
  EXPECT_EQ(fit_in_parts(whole, need / 2 - mib)->parts, 4) << "the batch of 8 cannot be divided by 3";
  const auto none = fit_in_parts(whole, need / 16);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, errc::out_of_memory);
  EXPECT_THAT(none.error().message, HasSubstr("p: its tensors need at least 11 MiB at a time, in step 2 (aten::relu)"));
  EXPECT_THAT(none.error().message, HasSubstr("it cannot be computed in parts that fit: in 8 parts its tensors need"));
}

// A norm over the batch needs all of its operand: what is in front of it is joined.
TEST(batch_parts, a_step_that_mixes_the_batch_gets_what_the_parts_made) {
  const std::string steps = convolved + R"(,{"aten":"aten::softmax.int","args":{"self":"y","dim":0},"out":["z"]})";
  const auto whole = checked(volume, steps, R"("z")");
  const auto parts = in_parts(whole, 8);
  ASSERT_TRUE(parts) << parts.error().message;
  EXPECT_LT(memory_need_of(*parts).bytes, memory_need_of(whole).bytes / 7);
  EXPECT_EQ(std::get<aten_step>(parts->text.steps.back()).op, "aten::softmax.int");
}

TEST(batch_parts, do_not_help_where_the_first_step_mixes_the_batch) {
  const auto whole = checked(R"("inputs":[{"name":"x","dtype":"float32","shape":[8,512]}])",
                             R"({"aten":"aten::cumsum","args":{"self":"x","dim":0},"out":["y"]})", R"("y")");
  const auto parts = in_parts(whole, 2);
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, errc::unsupported);
  EXPECT_THAT(parts.error().message,
              HasSubstr("step 1 (aten::cumsum): aten::cumsum may mix the elements of the batch"));
  EXPECT_THAT(in_parts(whole, 3).error().message, HasSubstr("the first dimension of no input can be divided by 3"));
}

// Attention as PyTorch exports it: the batch lies behind the sequence, and is merged with heads and with the sequence.
TEST(batch_parts, follow_the_batch_through_attention) {
  const auto whole = checked(
      R"("inputs":[{"name":"x","dtype":"float32","shape":[2,64,48]}],)"
      R"("weights":[{"name":"w","dtype":"float32","shape":[144,48]},{"name":"o","dtype":"float32","shape":[48,48]}])",
      R"({"aten":"aten::permute","args":{"self":"x","dims":[1,0,2]},"out":["s"]},
      {"aten":"aten::linear","args":{"input":"s","weight":"w"},"out":["qkv"]},
      {"aten":"aten::chunk","args":{"self":"qkv","chunks":3,"dim":-1},"out":["q","k","v"]},
      {"aten":"aten::reshape","args":{"self":"q","shape":[64,8,12]},"out":["q1"]},
      {"aten":"aten::transpose.int","args":{"self":"q1","dim0":0,"dim1":1},"out":["q2"]},
      {"aten":"aten::reshape","args":{"self":"k","shape":[64,8,12]},"out":["k1"]},
      {"aten":"aten::permute","args":{"self":"k1","dims":[1,2,0]},"out":["k2"]},
      {"aten":"aten::reshape","args":{"self":"v","shape":[64,8,12]},"out":["v1"]},
      {"aten":"aten::transpose.int","args":{"self":"v1","dim0":0,"dim1":1},"out":["v2"]},
      {"aten":"aten::bmm","args":{"self":"q2","mat2":"k2"},"out":["scores"]},
      {"aten":"aten::softmax.int","args":{"self":"scores","dim":-1},"out":["weights"]},
      {"aten":"aten::bmm","args":{"self":"weights","mat2":"v2"},"out":["mixed"]},
      {"aten":"aten::transpose.int","args":{"self":"mixed","dim0":0,"dim1":1},"out":["m1"]},
      {"aten":"aten::reshape","args":{"self":"m1","shape":[128,48]},"out":["m2"]},
      {"aten":"aten::mm","args":{"self":"m2","mat2":"o"},"out":["m3"]},
      {"aten":"aten::view","args":{"self":"m3","size":[64,2,48]},"out":["m4"]},
      {"aten":"aten::permute","args":{"self":"m4","dims":[1,0,2]},"out":["y"]})",
      R"("y")");
  const auto parts = in_parts(whole, 2);
  ASSERT_TRUE(parts) << parts.error().message;
  const auto of_scores = [](const step& s) { return std::get<aten_step>(s).op == "aten::softmax.int"; };
  EXPECT_EQ(std::ranges::count_if(parts->text.steps, of_scores), 2);
  EXPECT_EQ(std::get<aten_step>(parts->text.steps.back()).op, "aten::cat") << "nothing is left as a whole";
  EXPECT_LT(memory_need_of(*parts).bytes, memory_need_of(whole).bytes * 2 / 3);
}

}  // namespace
}  // namespace cudal1
