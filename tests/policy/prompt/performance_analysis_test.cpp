#include "policy/prompt/performance_analysis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/prompt/prompt_fixture.hpp"

namespace cudal1 {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

// A variant of which only the moves and the times matter.
exemplar variant(const std::string& moves, double score, outcome result = outcome::correct) {
  stored_exemplar known;
  known.variant.id = moves + std::to_string(score);
  known.variant.schedule = moves;
  known.result.result = result;
  if (result == outcome::correct) {
    known.result.score = score;
    known.result.score_interval = {score * 0.99, score * 1.01};
    known.result.reference_us = 1000;
    known.result.variant_us = 1000 / score;
  }
  return value_of(exemplar_of(std::move(known)));
}

class analysis : public testing::Test {
 protected:
  std::shared_ptr<const task> task_ = builtin_task("rms_norm", "cuda");
  device_data h200_ = *value_of(find_device_data("NVIDIA H200"));
  task_bounds bounds_ = bounds_of(*task_, h200_);
};

TEST_F(analysis, finds_the_moves_that_fast_variants_share_and_others_lack) {
  const auto a =
      analyse(*task_,
              {variant("row_kernel(steps=0..5); block(group=0, threads=256)", 5),
               variant("row_kernel(steps=0..5); block(group=0, threads=512)", 4.8), variant("fuse(steps=4..5)", 1.4)},
              {variant("fuse(steps=0..1); recompute(group=0)", 0, outcome::wrong_answer)}, bounds_);
  EXPECT_EQ(a.fast, 2);
  EXPECT_EQ(a.slow, 1);
  EXPECT_EQ(a.failed, 1);
  EXPECT_THAT(a.helping, Contains(Field(&move_contrast::move, "row_kernel")));
  EXPECT_THAT(a.harming, Contains(Field(&move_contrast::move, "fuse")));
  EXPECT_THAT(a.harming, Contains(Field(&move_contrast::move, "recompute")));
  const auto text = sentences(a);
  EXPECT_THAT(text, HasSubstr("The best of 3 correct variants is 5.00x"));
  EXPECT_THAT(text, HasSubstr("row_kernel (in 100% of the fast, 0% of the slow, 0% of the failed)"));
  EXPECT_THAT(text, HasSubstr("Failed: wrong_answer 1."));
}

TEST_F(analysis, compares_the_values_of_tuning_moves) {
  const auto a = analyse(*task_,
                         {variant("row_kernel(steps=0..5); block(group=0, threads=256)", 5),
                          variant("row_kernel(steps=0..5); block(group=1, threads=64)", 2)},
                         {}, bounds_);
  EXPECT_THAT(a.helping, Contains(Field(&move_contrast::move, "block(threads=256)")));
  EXPECT_THAT(a.harming, Contains(Field(&move_contrast::move, "block(threads=64)")));
}

TEST_F(analysis, says_what_bounds_the_best) {
  auto fast = variant("row_kernel(steps=0..5)", 5);
  const auto bound = [&](double device_us, double call_us) {
    fast.known.result.variant_device_us = device_us;
    fast.known.result.variant_us = call_us;
    return analyse(*task_, {fast}, {}, bounds_).bound;
  };
  const auto roof = bounds_.roof->device_us();
  EXPECT_EQ(bound(roof * 1.1, roof * 1.2), time_bound::memory);
  EXPECT_EQ(bound(roof * 4, roof * 4.1), time_bound::code);
  EXPECT_EQ(bound(roof * 2, roof * 9), time_bound::call);
  bounds_.roof.reset();
  EXPECT_EQ(bound(roof * 2, roof * 9), time_bound::unknown);
}

TEST_F(analysis, leaves_borrowed_exemplars_out) {
  auto borrowed = variant("fuse(steps=0..1)", 9);
  borrowed.known.similarity = 0.6;
  const auto a = analyse(*task_, {borrowed}, {}, bounds_);
  EXPECT_THAT(a.best, IsEmpty());
  EXPECT_EQ(a.fast + a.slow, 0);
  EXPECT_THAT(sentences(a), HasSubstr("compute several steps in one kernel"));
}

TEST_F(analysis, counts_the_bytes_of_the_tasks_own_steps) {
  // x: 268 MB. pow reads x and writes as much, mean reads that, mul and mul read and write two of that size each.
  EXPECT_EQ(bounds_.operators, 6);
  EXPECT_NEAR(static_cast<double>(bounds_.stepwise_bytes), 7 * 16384.0 * 4096 * 4, 1e6);
  EXPECT_EQ(bounds_.largest_intermediate, 16384LL * 4096 * 4);
}

}  // namespace
}  // namespace cudal1
