// Moves: what is offered, what is refused, and that all that is offered lowers to a checked program.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/schedule_builder.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

using ::testing::HasSubstr;

schedule parsed(const std::string& text) {
  auto read = parse_schedule(text);
  if (!read) throw std::runtime_error(read.error().message);
  return *read;
}

bool offers(const task& t, const std::string& name, device_kind kind = device_kind::cpu) {
  const auto moves = legal_moves(t, {}, kind);
  return moves && std::any_of(moves->begin(), moves->end(), [&](const move& m) { return m.name == name; });
}

std::string refusal(const task& t, const std::string& text) {
  const auto result = lower(t, parsed(text), device_kind::cpu);
  return result ? "accepted" : result.error().message;
}

TEST(Moves, EveryLegalMoveOfEveryTaskLowersToACheckedProgram) {
  for (const auto* tasks : {&builtin_tasks(), &small_tasks()}) {
    for (const auto& t : *tasks) {
      for (const auto kind : {device_kind::cpu, device_kind::cuda}) {
        const auto moves = legal_moves(t, {}, kind);
        ASSERT_TRUE(moves) << t.name << ": " << moves.error().message;
        for (const auto& m : *moves) {
          const auto result = lower(t, {{m}}, kind);
          EXPECT_TRUE(result) << t.name << ": " << print_schedule({{m}}) << ": " << result.error().message;
        }
      }
    }
  }
}

TEST(Moves, RandomWalksLowerToTheSameCheckedProgramEachTime) {
  random_source random(20261120);
  for (int walk = 0; walk < 300; ++walk) {
    const task& t = random.chance(0.7) ? random.pick(builtin_tasks()) : random.pick(small_tasks());
    const schedule s = random_schedule(t, device_kind::cpu, random);
    const auto result = lower(t, s, device_kind::cpu);
    ASSERT_TRUE(result) << t.name << ": " << print_schedule(s) << ": " << result.error().message;
    EXPECT_EQ(result->explanation.size(), s.moves.size());
    EXPECT_EQ(parse_schedule(print_schedule(s)), s);
    const auto again = lower(t, s, device_kind::cpu);
    EXPECT_EQ(program_id(again->result), program_id(result->result)) << "lowering is not deterministic";
  }
}

TEST(Moves, IllegalOnesAreRefusedWithTheirNumberAndAReason) {
  EXPECT_THAT(refusal(builtin("softmax"), "row_kernel(steps=0); row_kernel(steps=0)"), HasSubstr("move 1"));
  EXPECT_THAT(refusal(builtin("softmax"), "fuse(steps=0)"), HasSubstr("row_kernel's"));
  EXPECT_THAT(refusal(builtin("softmax"), "fuse(steps=7)"), HasSubstr("there is no step 7"));
  EXPECT_THAT(refusal(builtin("softmax"), "melt(steps=0)"), HasSubstr("there is no move \"melt\""));
  EXPECT_THAT(refusal(builtin("softmax"), "drop(steps=0)"), HasSubstr("drop(step=...)"));
  EXPECT_THAT(refusal(builtin("attention"), "fuse(steps=1)"), HasSubstr("no form as a kernel"));
  EXPECT_THAT(refusal(builtin("gated_silu"), "fuse(steps=0..1); block(group=0, threads=7)"), HasSubstr("threads=7"));
  EXPECT_THAT(refusal(builtin("gated_silu"), "fuse(steps=0..1); block(group=1, threads=64)"), HasSubstr("no group 1"));
  EXPECT_THAT(refusal(builtin("gated_silu"), "fuse(steps=0..1); block(group=0, threads=1)"), HasSubstr("no good"));
  EXPECT_TRUE(lower(builtin("gated_silu"),
                    parsed("fuse(steps=0..1); items(group=0, elements=64); block(group=0, threads=1)"),
                    device_kind::cpu));
  // Two groups that would wait for each other.
  EXPECT_THAT(refusal(builtin("mlp"), "fuse(steps=1+3)"), HasSubstr("no order"));
}

TEST(Moves, ProofsAreOfferedOnlyWithTheFactAndLeaveACertificate) {
  EXPECT_TRUE(offers(builtin("diagonal_matmul"), "diagonal_matmul"));
  EXPECT_TRUE(offers(small("column_scale"), "diagonal_matmul"));
  EXPECT_FALSE(offers(small("plain_product"), "diagonal_matmul"));
  EXPECT_FALSE(offers(small("plain_product"), "drop"));
  EXPECT_FALSE(offers(small("relu"), "drop"));
  const auto diagonal = lower(builtin("diagonal_matmul"), parsed("diagonal_matmul(step=0)"), device_kind::cpu);
  ASSERT_TRUE(diagonal);
  ASSERT_EQ(diagonal->certificates.size(), 1u);
  EXPECT_THAT(diagonal->certificates[0], HasSubstr("declares a diagonal"));
  EXPECT_THAT(diagonal->certificates[0], HasSubstr("assumes that b is finite"));
  const auto dropped = lower(builtin("triangular_matmul"), parsed("drop(step=1)"), device_kind::cpu);
  ASSERT_TRUE(dropped);
  ASSERT_EQ(dropped->certificates.size(), 1u);
  EXPECT_THAT(dropped->certificates[0], HasSubstr("product of two upper-triangular"));
  EXPECT_EQ(dropped->result.steps.size(), 1u);
  EXPECT_EQ(dropped->result.outputs, builtin("triangular_matmul").reference.text.outputs);
}

TEST(Moves, ASumIsPulledThroughALinearLayerWithConstantWeightsOnly) {
  const task& t = builtin("linear_row_sum");
  EXPECT_TRUE(offers(t, "pull_sum_through_linear"));
  EXPECT_FALSE(offers(builtin("mlp"), "pull_sum_through_linear"));
  EXPECT_FALSE(offers(small("sum_rows"), "pull_sum_through_linear"));
  const auto pulled = lower(t, parsed("pull_sum_through_linear(step=1)"), device_kind::cpu);
  ASSERT_TRUE(pulled) << pulled.error().message;
  EXPECT_EQ(pulled->result.setup.size(), 2u);
  for (const auto& s : pulled->result.steps) {
    const auto* aten = std::get_if<aten_step>(&s);
    EXPECT_TRUE(aten == nullptr || aten->op != "aten::linear");
  }
  ASSERT_EQ(pulled->certificates.size(), 1u);
  EXPECT_THAT(pulled->certificates[0], HasSubstr("assumes that x is finite"));
}

TEST(Moves, CudaGetsPointwiseKernelsAndNoPretendedReductions) {
  EXPECT_TRUE(offers(builtin("gated_silu"), "fuse", device_kind::cuda));
  EXPECT_FALSE(offers(builtin("softmax"), "row_kernel", device_kind::cuda));
  const auto refused = lower(builtin("softmax"), parsed("row_kernel(steps=0)"), device_kind::cuda);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::unsupported);
}

TEST(Moves, TheCatalogueSaysWhatEachIsFor) {
  const auto catalogue = move_catalogue();
  for (const char* name : {"fuse", "fuse_into_reduction", "row_kernel", "diagonal_matmul", "drop", "block", "items",
                           "unroll", "in_place"}) {
    const auto entry = std::find_if(catalogue.begin(), catalogue.end(), [&](const auto& e) { return e.first == name; });
    ASSERT_NE(entry, catalogue.end()) << name;
    EXPECT_GT(entry->second.size(), 20u);
  }
}

}  // namespace
}  // namespace cudal1::test
