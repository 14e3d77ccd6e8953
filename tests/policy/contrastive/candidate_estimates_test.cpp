// Estimates of candidates, and what measured ones say of the others.
#include "policy/contrastive/candidate_estimates.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "policy/estimate/program_estimate.hpp"
#include "tests/policy/contrastive/synthetic_space.hpp"

namespace cudal1::test {
namespace {

struct known {
  candidate_set all;
  device_data gpu;
  candidate_estimates estimates;
};

const known& softmax() {
  static const known k = [] {
    const auto space = space_of(builtin("softmax"), for_cuda(), 128);
    const candidate_set all(space.schedules, space.programs);
    const auto gpu = value_of(find_device_data("NVIDIA H200")).value();
    return known{all, gpu, candidate_estimates(builtin("softmax"), all, for_cuda(), gpu)};
  }();
  return k;
}

double estimated_us_of(std::size_t c) {
  return estimate_of(builtin("softmax"), softmax().all.plan(c), for_cuda(), softmax().gpu).value().call_us;
}

candidate_bits all_candidates() {
  candidate_bits out;
  for (std::size_t c = 0; c < softmax().all.size(); ++c)
    out.set(c);
  return out;
}

TEST(CandidateEstimates, ThePriorIsTheLogarithmOfEstimatedSpeeds) {
  const auto prior = softmax().estimates.prior(16, {});
  const std::size_t best = prior.best_candidate_of(all_candidates());
  EXPECT_EQ(prior.of(best), 0);
  for (std::size_t c = 0; c < softmax().all.size(); ++c) {
    EXPECT_GE(estimated_us_of(c), estimated_us_of(best));
    EXPECT_NEAR(prior.of(c), std::max(-30.0, 16 * std::log(estimated_us_of(best) / estimated_us_of(c))), 1e-4);
  }
  EXPECT_TRUE(softmax().estimates.prior(0, {}).empty());
  EXPECT_TRUE(candidate_estimates(builtin("softmax"), softmax().all, for_cpu(), softmax().gpu).empty())
      << "there are no estimates of programs for cpu";
}

// Blocks of 512 threads are slower than estimated, again and again: those that were not measured are so, too.
TEST(CandidateEstimates, MeasuredScoresCorrectThoseThatAreAlike) {
  const auto has = [](std::size_t c) {
    return print_schedule(softmax().all.plan(c)).find("block(group=0, threads=512)") != std::string::npos;
  };
  std::vector<measured_candidate> measured;
  std::vector<std::size_t> others;
  for (std::size_t c = 0; c < softmax().all.size(); ++c) {
    const double score = 100 / estimated_us_of(c) * (has(c) ? 0.6 : 1);
    if (c % 3 == 0)
      others.push_back(c);
    else
      measured.push_back({c, score, 0, 0, 0, 0});
  }
  const auto before = softmax().estimates.prior(1, {}), after = softmax().estimates.prior(1, measured);
  const std::size_t one = *std::ranges::find_if_not(others, has);
  int slower = 0;
  for (const std::size_t c : others) {
    const double moved = (after.of(c) - after.of(one)) - (before.of(c) - before.of(one));
    if (has(c)) {
      EXPECT_LT(moved, 0.6 * std::log(0.6)) << c;
      ++slower;
    } else {
      EXPECT_GT(moved, 0.3 * std::log(0.6)) << c;
    }
  }
  EXPECT_GT(slower, 3);
  // The same scores in other units, or a failed candidate: nothing else is said of any.
  auto scaled = measured;
  for (auto& m : scaled)
    m.score *= 3;
  scaled.push_back({others.front(), 0, 0, 0, 0, 0});
  const auto again = softmax().estimates.prior(1, scaled);
  for (std::size_t c = 0; c < softmax().all.size(); ++c)
    EXPECT_NEAR(again.of(c) - again.of(one), after.of(c) - after.of(one), 0.02);
}

}  // namespace
}  // namespace cudal1::test
