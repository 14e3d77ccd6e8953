// Schedules whose program does not fit the device's memory are not proposed.
#include <algorithm>

#include <gtest/gtest.h>

#include "policy/search/immediate_policy.hpp"
#include "policy/search/known_variants.hpp"
#include "policy/search/policy_registry.hpp"
#include "policy/search/starting_schedules.hpp"
#include "sandbox/program/memory_need.hpp"
#include "tests/policy/network_text.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

constexpr int64_t mib = int64_t{1} << 20;

// Its own program has two tensors of 4 MiB at a time and a schedule with one kernel none, but for the sums.
task summed_products() {
  return task_of({"summed", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [1024, 1024]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [1024]}])",
                  R"(a = mul.Tensor {"self": "x", "other": "w"}
                     b = sigmoid {"self": "a"}
                     c = mul.Tensor {"self": "b", "other": "x"}
                     d = tanh {"self": "c"}
                     y = sum.dim_IntList {"self": "d", "dim": [1]})",
                  R"(["y"])"});
}

int64_t need_of(const task& t, const schedule& s) {
  const auto made = lower(t, s, for_cpu());
  return made ? memory_need_of(made->checked).bytes : -1;
}

class too_large_schedules : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(all, too_large_schedules, testing::Values("random", "evolutionary", "exhaustive"));

TEST_P(too_large_schedules, are_not_proposed) {
  const task t = summed_products();
  ASSERT_EQ(memory_need_of(t.reference).bytes, 8 * mib);
  policy_setup setup;
  setup.seed = 7;
  auto made = make_policy(GetParam(), setup);
  ASSERT_TRUE(made) << made.error().message;
  auto* by = dynamic_cast<immediate_policy*>(made->get());
  ASSERT_NE(by, nullptr);
  const auto largest_of = [&](int64_t bytes) {
    int64_t largest = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      prompt p;
      p.what = {std::shared_ptr<const task>(), &t};
      p.target = &for_cpu();
      p.seed = seed;
      p.tensor_bytes = bytes;
      const auto proposed = by->propose_one(p);
      if (proposed && !proposed->plan.moves.empty()) largest = std::max(largest, need_of(t, proposed->plan));
    }
    return largest;
  };
  EXPECT_LE(largest_of(5 * mib), 5 * mib);
}

TEST(too_large_schedules_of, a_prompt_are_ruled_out_with_its_limit_only) {
  const task t = summed_products();
  prompt p;
  p.what = {std::shared_ptr<const task>(), &t};
  p.target = &for_cpu();
  schedule_builder plain(t, for_cpu());
  const known_variants unlimited(p);
  EXPECT_FALSE(unlimited.may_be_too_large());
  EXPECT_FALSE(unlimited.rules_out(plain));
  p.tensor_bytes = 5 * mib;
  const known_variants limited(p);
  EXPECT_TRUE(limited.rules_out(plain)) << "the task's own program needs 8 MiB";
  const auto whole = whole_schedules(t, for_cpu());
  ASSERT_FALSE(whole.empty());
  schedule_builder one_kernel = repaired(t, for_cpu(), whole.front().moves);
  EXPECT_FALSE(limited.rules_out(one_kernel)) << print_schedule(whole.front());
  p.tensor_bytes = 1024 * mib;
  EXPECT_FALSE(known_variants(p).may_be_too_large()) << "nothing that is made of this task can be as large";
}

}  // namespace
}  // namespace cudal1::test
