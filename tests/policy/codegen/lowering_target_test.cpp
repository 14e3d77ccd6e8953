// Lowering targets are found by name, and one can be added without changes in policy/.
#include "policy/codegen/lowering_target.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/immediate_policy.hpp"
#include "policy/search/policy_registry.hpp"
#include "policy/search/starting_schedules.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

using ::testing::HasSubstr;

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
  std::span<const int64_t> values(tuning_option option) const override {
    static constexpr int64_t threads[] = {96};
    return option == tuning_option::threads ? std::span<const int64_t>(threads) : std::span<const int64_t>();
  }
  bool is_useful(tuning_option, int64_t, const kernel_body&, const group_options&) const override { return true; }
};

TEST(LoweringTarget, IsFoundByName) {
  EXPECT_EQ((*find_lowering_target("cpu"))->name(), "cpu");
  EXPECT_EQ((*find_lowering_target("cuda"))->name(), "cuda");
  EXPECT_THAT(find_lowering_target("tpu").error().message, HasSubstr("there are cpu, cuda"));
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
    for (const auto option :
         {tuning_option::threads, tuning_option::items, tuning_option::accumulators, tuning_option::row_threads}) {
      const auto values = target->values(option);
      EXPECT_TRUE(std::ranges::is_sorted(values, std::ranges::less_equal())) << target->name();
      EXPECT_EQ(values.empty(), target == &for_cpu() && option == tuning_option::row_threads);
    }
  }
}

}  // namespace
}  // namespace cudal1::test
