// Lowering targets are found by name, and one can be added without changes in policy/.
#include "policy/codegen/lowering_target.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/immediate_policy.hpp"
#include "policy/search/policy_registry.hpp"
#include "policy/search/starting_schedules.hpp"
#include "sandbox/evaluation_records.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// A target without graphs and TF32 whose kernels are those of cuda, with a single block size.
class third_target final : public lowering_target {
 public:
  static constexpr const char* own_name = "third";

  std::string_view name() const override { return own_name; }
  expected<emitted_kernel> emit(const emit_request& request) const override {
    emit_request own = request;
    own.comment += " on a third kind of device";
    return for_cuda().emit(own);
  }
  std::span<const kernel_tunable> tunables() const override {
    static constexpr int64_t threads[] = {96};
    static const kernel_tunable all[] = {declared(kernel_tunable::block, threads, nullptr)};
    return all;
  }
  bool is_useful(std::string_view, int64_t, const kernel_body&, const kernel_options&) const override { return true; }
};

TEST(LoweringTarget, IsFoundByName) {
  EXPECT_EQ((*find_lowering_target("cpu"))->name(), "cpu");
  EXPECT_EQ((*find_lowering_target("cuda"))->name(), "cuda");
  EXPECT_THAT(find_lowering_target("tpu").error().message, HasSubstr("there are cpu, cuda"));
}

// What a GPU lacks is not proposed for it; a schedule that another GPU's search found is still lowered.
TEST(LoweringTarget, IsLimitedToWhatADeviceCanDo) {
  const task& t = builtin("matmul_epilogue");
  const auto ways = [&](const char* details) {
    std::vector<std::string> out;
    const lowering_target& limited = for_cuda().limited_to(details);
    for (const auto& m : find_move("product_kernel")->candidates(graph(t), limited))
      out.push_back(m.parameters.size() > 1 ? m.parameters.back().second : "tf32");
    return out;
  };
  EXPECT_THAT(ways("compute capability 9.0, 81559 MiB"), UnorderedElementsAre("halves", "tf32", "threads"));
  EXPECT_THAT(ways(""), UnorderedElementsAre("halves", "tf32", "threads"));
  for (const char* others : {"compute capability 8.0, 40960 MiB", "compute capability 10.0", "compute capability 12.0"})
    EXPECT_THAT(ways(others), UnorderedElementsAre("tf32", "threads")) << others;
  EXPECT_THAT(ways("compute capability 7.5"), ElementsAre("threads"));
  EXPECT_EQ(&for_cuda().limited_to("compute capability 9.0"), &for_cuda());
  EXPECT_EQ(&for_cpu().limited_to("compute capability 7.5"), &for_cpu());
  EXPECT_TRUE(lower(t, *parse_schedule("product_kernel(steps=0, factors=halves)"),
                    for_cuda().limited_to("compute capability 8.0")));
  const auto wrong = lower(t, *parse_schedule("product_kernel(steps=0, factors=thirds)"), for_cuda());
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("factors=thirds is not halves or tf32"));
}

// Where variants are held to another accuracy, so are the moves that are proposed.
TEST(LoweringTarget, ProposesWhatIsAsExactAsItsDeviceAccepts) {
  const auto held = [](accuracy a) -> const lowering_target& {
    environment where;
    where.details = "compute capability 9.0";
    return for_cuda().limited_to(held_to(where, a).details);
  };
  const auto precisions = [&](accuracy a) {
    std::vector<std::string> out;
    for (const auto& m : find_move("precision")->candidates(graph(builtin("linear_gelu")), held(a)))
      out.push_back(m.parameters.back().second);
    return out;
  };
  EXPECT_THAT(precisions(accuracy::own), ElementsAre("tf32x3"));
  EXPECT_THAT(precisions(accuracy::strict), ElementsAre("tf32x3"));
  EXPECT_THAT(precisions(accuracy::half), ElementsAre("tf32x3", "tf32"));
  EXPECT_EQ(&held(accuracy::own), &for_cuda());
  EXPECT_EQ(held(accuracy::strict).accepted(), accuracy::strict);
  EXPECT_EQ(&held(accuracy::half), &held(accuracy::half));
  EXPECT_EQ(for_cuda().accepted(), accuracy::own);
}

TEST(LoweringTarget, AnAddedTargetWorksInSearchLikeTheBuiltInOnes) {
  if (!find_lowering_target(third_target::own_name)) {
    ASSERT_TRUE(add_lowering_target(std::make_unique<third_target>()));
  }
  EXPECT_FALSE(add_lowering_target(std::make_unique<third_target>())) << "a name can be registered only once";
  const lowering_target& third = target_named(third_target::own_name);
  const task& t = builtin("softmax");
  const auto result = lower(t, *parse_schedule("row_kernel(steps=0); block(group=0, threads=96)"), third);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(result->checked.text.source, HasSubstr("on a third kind of device"));
  for (const char* refused : {"graph()", "row_kernel(steps=0); block(group=0, threads=64)",
                              "row_kernel(steps=0); row_threads(group=0, threads=32)"})
    EXPECT_FALSE(lower(t, *parse_schedule(refused), third)) << refused;
  EXPECT_FALSE(whole_schedules(t, third).empty());
  for (const auto& name : policy_names()) {
    prompt p;
    p.what = std::shared_ptr<const task>(std::shared_ptr<const task>(), &t);
    p.target = &third;
    const auto made = make_policy(name, {});
    auto* immediate = made ? dynamic_cast<immediate_policy*>(made->get()) : nullptr;
    if (immediate == nullptr) continue;
    const auto proposed = immediate->propose_one(p);
    ASSERT_TRUE(proposed) << name << ": " << proposed.error().message;
    EXPECT_TRUE(lower(t, proposed->plan, third)) << name;
  }
}

TEST(LoweringTarget, EveryOptionOfABuiltInTargetHasDistinctValues) {
  for (const auto* target : {&for_cpu(), &for_cuda()}) {
    for (const auto& known : known_tunables()) {
      const auto values = target->values(known.name);
      EXPECT_TRUE(std::ranges::is_sorted(values, std::ranges::less_equal())) << target->name();
      const bool on_cpu = known.name == kernel_tunable::block || known.name == kernel_tunable::items ||
                          known.name == kernel_tunable::unroll;
      EXPECT_EQ(values.empty(), target == &for_cpu() && !on_cpu) << known.name;
    }
  }
}

}  // namespace
}  // namespace cudal1::test
