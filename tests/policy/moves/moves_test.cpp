// Moves: which are legal, which are rejected, and that every legal one lowers to a checked program.
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

TEST(Moves, EveryLegalMoveOfEveryTaskLowersToACheckedProgram) {
  for (const auto* tasks : {&builtin_tasks(), &small_tasks()}) {
    for (const auto& t : *tasks) {
      for (const auto* target : {&for_cpu(), &for_cuda()}) {
        const auto moves = legal_moves(t, {}, *target);
        ASSERT_TRUE(moves) << t.name << ": " << moves.error().message;
        for (const auto& m : *moves) {
          const auto result = lower(t, {{m}}, *target);
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
    const schedule s = random_schedule(t, for_cpu(), random).moves();
    const auto result = lower(t, s, for_cpu());
    ASSERT_TRUE(result) << t.name << ": " << print_schedule(s) << ": " << result.error().message;
    EXPECT_EQ(result->explanation.size(), s.moves.size());
    EXPECT_EQ(parse_schedule(print_schedule(s)), s);
    const auto again = lower(t, s, for_cpu());
    EXPECT_EQ(again->checked.id, result->checked.id) << "lowering is not deterministic";
  }
}

TEST(Moves, IllegalMovesAreRejectedWithTheirNumberAndAReason) {
  EXPECT_THAT(refusal(builtin("softmax"), "row_kernel(steps=0); row_kernel(steps=0)"), HasSubstr("move 1"));
  EXPECT_THAT(refusal(builtin("softmax"), "fuse(steps=0)"), HasSubstr("use row_kernel"));
  EXPECT_THAT(refusal(builtin("softmax"), "fuse(steps=7)"), HasSubstr("there is no step 7"));
  EXPECT_THAT(refusal(builtin("softmax"), "melt(steps=0)"), HasSubstr("there is no move \"melt\""));
  EXPECT_THAT(refusal(builtin("softmax"), "drop(steps=0)"), HasSubstr("drop(step=...)"));
  EXPECT_THAT(refusal(builtin("attention"), "fuse(steps=1)"), HasSubstr("cannot be part of a kernel"));
  EXPECT_THAT(refusal(builtin("gated_silu"), "fuse(steps=0..1); block(group=0, threads=7)"), HasSubstr("threads=7"));
  EXPECT_THAT(refusal(builtin("gated_silu"), "fuse(steps=0..1); block(group=1, threads=64)"), HasSubstr("no group 1"));
  EXPECT_THAT(refusal(builtin("gated_silu"), "fuse(steps=0..1); block(group=0, threads=1)"),
              HasSubstr("would not help"));
  EXPECT_TRUE(lower(builtin("gated_silu"),
                    parsed("fuse(steps=0..1); items(group=0, elements=64); block(group=0, threads=1)"), for_cpu()));
  // The group and a step outside of it would depend on each other.
  EXPECT_THAT(refusal(builtin("mlp"), "fuse(steps=1+3)"), HasSubstr("no order"));
}

TEST(CudaMoves, RandomWalksLowerToCheckedPrograms) {
  random_source random(20261121);
  for (int walk = 0; walk < 150; ++walk) {
    const task& t = random.chance(0.7) ? random.pick(builtin_tasks()) : random.pick(row_tasks());
    const schedule s = random_schedule(t, for_cuda(), random).moves();
    const auto result = lower(t, s, for_cuda());
    ASSERT_TRUE(result) << t.name << ": " << print_schedule(s) << ": " << result.error().message;
    EXPECT_EQ(parse_schedule(print_schedule(s)), s);
  }
}

}  // namespace
}  // namespace cudal1::test
