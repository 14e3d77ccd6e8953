// Moves: what is offered, what is refused, and that all that is offered lowers to a checked program.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/schedule_builder.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
    const schedule s = random_schedule(t, device_kind::cpu, random).moves();
    const auto result = lower(t, s, device_kind::cpu);
    ASSERT_TRUE(result) << t.name << ": " << print_schedule(s) << ": " << result.error().message;
    EXPECT_EQ(result->explanation.size(), s.moves.size());
    EXPECT_EQ(parse_schedule(print_schedule(s)), s);
    const auto again = lower(t, s, device_kind::cpu);
    EXPECT_EQ(again->checked.id, result->checked.id) << "lowering is not deterministic";
  }
}

// The sets of steps that the first whole schedule makes kernels over rows of.
std::vector<std::string> row_kernels(const task& t, device_kind kind) {
  std::vector<std::string> out;
  const auto whole = whole_schedules(t, kind);
  if (whole.empty()) return out;
  for (const auto& m : whole.front().moves)
    if (m.name == "row_kernel") out.push_back(m.parameters.front().second);
  return out;
}

TEST(Moves, NormsOfABatchAndGlobalAveragesAreOneKernelWithWhatIsAroundThem) {
  for (const auto kind : {device_kind::cpu, device_kind::cuda}) {
    for (const char* name : {"batch_norm_relu", "batch_norm_of_features", "instance_norm"})
      EXPECT_THAT(row_kernels(small(name), kind), ::testing::ElementsAre("0..1")) << name;
    EXPECT_THAT(row_kernels(small("global_average"), kind), ::testing::ElementsAre("0..2"));
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
  EXPECT_EQ(dropped->checked.text.steps.size(), 1u);
  EXPECT_EQ(dropped->checked.text.outputs, builtin("triangular_matmul").reference.text.outputs);
}

TEST(Moves, ASumIsPulledThroughALinearLayerWithConstantWeightsOnly) {
  const task& t = builtin("linear_row_sum");
  EXPECT_TRUE(offers(t, "pull_sum_through_linear"));
  EXPECT_FALSE(offers(builtin("mlp"), "pull_sum_through_linear"));
  EXPECT_FALSE(offers(small("sum_rows"), "pull_sum_through_linear"));
  const auto pulled = lower(t, parsed("pull_sum_through_linear(step=1)"), device_kind::cpu);
  ASSERT_TRUE(pulled) << pulled.error().message;
  EXPECT_EQ(pulled->checked.text.setup.size(), 2u);
  for (const auto& s : pulled->checked.text.steps) {
    const auto* aten = std::get_if<aten_step>(&s);
    EXPECT_TRUE(aten == nullptr || aten->op != "aten::linear");
  }
  ASSERT_EQ(pulled->certificates.size(), 1u);
  EXPECT_THAT(pulled->certificates[0], HasSubstr("assumes that x is finite"));
}

const launch_step& launch_of(const program& p, std::size_t number = 0) {
  for (const auto& s : p.steps) {
    if (const auto* launch = std::get_if<launch_step>(&s); launch != nullptr && number-- == 0) return *launch;
  }
  throw std::runtime_error("no such launch");
}

program lowered_for_cuda(const task& t, const std::string& text) {
  auto result = lower(t, parsed(text), device_kind::cuda);
  if (!result) throw std::runtime_error(text + ": " + result.error().message);
  return std::move(result->checked.text);
}

TEST(CudaMoves, ElementsAreReadInVectorsWhereTheyAreAligned) {
  const program wide = lowered_for_cuda(builtin("gated_silu"), "fuse(steps=0..1)");
  EXPECT_THAT(wide.source, HasSubstr("*(const float4*)(gate_in"));
  EXPECT_THAT(wide.source, HasSubstr("*(float4*)(y_out"));
  const program narrow = lowered_for_cuda(builtin("gated_silu"), "fuse(steps=0..1); items(group=0, elements=1)");
  EXPECT_THAT(narrow.source, Not(HasSubstr("float4")));
  // A row of 19 elements ends in the middle of a vector, a slice may begin there.
  EXPECT_THAT(lowered_for_cuda(small("broadcast"), "fuse(steps=0..1)").source, HasSubstr("float4"));
  EXPECT_THAT(lowered_for_cuda(small("odd_slice"), "fuse(steps=1)").source, Not(HasSubstr("float4")));
  EXPECT_THAT(lowered_for_cuda(small("even_slice"), "fuse(steps=1)").source, HasSubstr("float4"));
}

TEST(CudaMoves, ThreadsOfARowAreAMoveAndRowsFillTheBlock) {
  const task& t = builtin("softmax");  // 2048 rows of 1024
  const program by_warps = lowered_for_cuda(t, "row_kernel(steps=0); row_threads(group=0, threads=32)");
  EXPECT_EQ(launch_of(by_warps).block[0] / 32, t.reference.text.inputs[0].type.shape[0] / launch_of(by_warps).grid[0]);
  const program by_blocks =
      lowered_for_cuda(t, "row_kernel(steps=0); row_threads(group=0, threads=256); block(group=0, threads=256)");
  EXPECT_EQ(launch_of(by_blocks).grid[0], t.reference.text.inputs[0].type.shape[0]);
  EXPECT_THAT(by_blocks.source, HasSubstr("__syncthreads"));
  EXPECT_THAT(by_warps.source, Not(HasSubstr("__syncthreads")));
}

TEST(CudaMoves, OneLongRowIsReducedByManyBlocks) {
  const program p = lowered_for_cuda(builtin("mse_loss"), "row_kernel(steps=0..2)");
  EXPECT_GE(launch_of(p).grid[0], 64);
  EXPECT_EQ(launch_of(p, 1).grid[0], 1);
}

TEST(CudaMoves, ASplitRowKernelWritesInPlaceWithItsLastPhase) {
  const auto& tasks = row_tasks();
  const auto t = std::ranges::find(tasks, "batch_norm_over_its_input", &task::name);
  ASSERT_NE(t, tasks.end());
  const auto result = lower(*t, parsed("row_kernel(steps=1..2); in_place(group=0)"), device_kind::cuda);
  ASSERT_TRUE(result) << result.error().message;
  const std::string text = print_program(result->checked.text);
  EXPECT_THAT(text, HasSubstr("phase 5 of 5"));
  EXPECT_THAT(text, HasSubstr(R"({"inout":"y"})"));
  EXPECT_EQ(text.find(R"({"inout":"y"})"), text.rfind(R"({"inout":"y"})")) << "the other phases only read";
}

TEST(CudaMoves, AGraphIsAMoveOfItsOwnAndOnlyThere) {
  const task& t = builtin("softmax");
  EXPECT_TRUE(lowered_for_cuda(t, "graph()").how.graph);
  EXPECT_FALSE(lowered_for_cuda(t, "row_kernel(steps=0)").how.graph);
  EXPECT_TRUE(offers(t, "graph", device_kind::cuda));
  EXPECT_FALSE(offers(t, "graph", device_kind::cpu));
  EXPECT_THAT(refusal(t, "graph()"), HasSubstr("CUDA devices only"));
  EXPECT_FALSE(lower(t, parsed("graph(); graph()"), device_kind::cuda));
}

TEST(CudaMoves, AProductBecomesThreeTf32ProductsWithItsWeightSplitOnce) {
  const task& t = builtin("linear_gelu");
  EXPECT_TRUE(offers(t, "precision", device_kind::cuda));
  EXPECT_FALSE(offers(t, "precision", device_kind::cpu));
  EXPECT_THAT(refusal(t, "precision(step=0, as=tf32x3)"), HasSubstr("CUDA devices only"));
  const program p = lowered_for_cuda(t, "precision(step=0, as=tf32x3); fuse(steps=1); in_place(group=0)");
  int products = 0, biased = 0;
  for (const auto& s : p.steps) {
    const auto* call = std::get_if<aten_step>(&s);
    if (call == nullptr) continue;
    EXPECT_EQ(call->precision, "tf32");
    ++products;
    biased += std::any_of(call->args.begin(), call->args.end(), [](const auto& a) { return a.first == "bias"; });
  }
  EXPECT_EQ(products, 3);
  EXPECT_EQ(biased, 1);
  EXPECT_EQ(std::count_if(p.setup.begin(), p.setup.end(),
                          [](const step& s) { return std::holds_alternative<launch_step>(s); }),
            1);
  EXPECT_FALSE(lower(t, parsed("precision(step=0, as=tf32x3); precision(step=0, as=tf32x3)"), device_kind::cuda));
  EXPECT_FALSE(lower(t, parsed("precision(step=1, as=tf32x3)"), device_kind::cuda));
  EXPECT_FALSE(lower(t, parsed("precision(step=0, as=bfloat16)"), device_kind::cuda));
  const task& diagonal = builtin("diagonal_matmul");
  EXPECT_FALSE(lower(diagonal, parsed("precision(step=0, as=tf32x3); diagonal_matmul(step=0)"), device_kind::cuda));
  EXPECT_FALSE(lower(diagonal, parsed("diagonal_matmul(step=0); precision(step=0, as=tf32x3)"), device_kind::cuda));
}

TEST(CudaMoves, RandomWalksLowerToCheckedPrograms) {
  random_source random(20261121);
  for (int walk = 0; walk < 150; ++walk) {
    const task& t = random.chance(0.7) ? random.pick(builtin_tasks()) : random.pick(row_tasks());
    const schedule s = random_schedule(t, device_kind::cuda, random).moves();
    const auto result = lower(t, s, device_kind::cuda);
    ASSERT_TRUE(result) << t.name << ": " << print_schedule(s) << ": " << result.error().message;
    EXPECT_EQ(parse_schedule(print_schedule(s)), s);
  }
}

TEST(Moves, TheCatalogueSaysWhatEachIsFor) {
  const auto catalogue = move_catalogue();
  for (const char* name : {"fuse", "fuse_into_reduction", "row_kernel", "diagonal_matmul", "drop", "block", "items",
                           "unroll", "row_threads", "in_place", "precision", "graph"}) {
    const auto entry = std::find_if(catalogue.begin(), catalogue.end(), [&](const auto& e) { return e.first == name; });
    ASSERT_NE(entry, catalogue.end()) << name;
    EXPECT_GT(entry->second.size(), 20u);
  }
}

}  // namespace
}  // namespace cudal1::test
