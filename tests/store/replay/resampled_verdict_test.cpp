#include "store/replay/resampled_verdict.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tests/store/replay/replay_fixture.hpp"

namespace cudal1 {
namespace {

std::set<double> references_of(const std::vector<timing_sample>& samples) {
  std::set<double> all;
  for (const auto& s : samples)
    all.insert(s.reference_us);
  return all;
}

TEST(resampled_verdict, draws_whole_forks_and_pairs_within_them) {
  const auto samples = make_samples(5, 8, 2);
  std::map<int, std::set<double>> of_fork;
  for (const auto& s : samples)
    of_fork[s.fork].insert(s.reference_us);
  uint64_t random = 1;
  for (int i = 0; i < 50; ++i) {
    const auto drawn = resample(samples, random);
    ASSERT_EQ(drawn.size(), samples.size());
    for (int f = 0; f < 5; ++f) {
      std::vector<double> times;
      for (const auto& s : drawn)
        if (s.fork == f) times.push_back(s.reference_us);
      ASSERT_EQ(times.size(), 8U);
      const bool from_one_fork = std::ranges::any_of(of_fork, [&](const auto& fork) {
        return std::ranges::all_of(times, [&](double t) { return fork.second.contains(t); });
      });
      EXPECT_TRUE(from_one_fork) << "fork " << f << " of draw " << i;
    }
  }
}

TEST(resampled_verdict, is_a_function_of_the_seed) {
  const auto samples = make_samples(4, 6, 2);
  std::set<double> scores;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    uint64_t first = seed, second = seed;
    const auto a = resample(samples, first), b = resample(samples, second);
    EXPECT_EQ(estimate_timing(a).score, estimate_timing(b).score) << "seed " << seed;
    scores.insert(estimate_timing(a).score);
  }
  EXPECT_GT(scores.size(), 5U);
}

TEST(resampled_verdict, draws_only_the_samples_that_the_score_is_of) {
  verdict v;
  v.samples = make_samples(2, 4, 1.5);  // a screening
  const auto fresh = make_samples(3, 6, 1.2, 2);
  static_cast<measured_score&>(v) = estimate_timing(fresh);
  v.samples.insert(v.samples.end(), fresh.begin(), fresh.end());
  uint64_t random = 7;
  draw_times(v, 0.02, random);
  EXPECT_EQ(v.samples.size(), fresh.size());
  EXPECT_TRUE(std::ranges::includes(references_of(fresh), references_of(v.samples)));
  EXPECT_NEAR(v.score, 1.2, 0.05);
  EXPECT_EQ(v.score, estimate_timing(v.samples).score) << "the score is that of all samples of the new verdict";
}

TEST(resampled_verdict, leaves_alone_what_has_no_score) {
  verdict failed;
  failed.result = outcome::inconsistent;
  failed.samples = make_samples(1, 3, 2);
  uint64_t random = 1;
  draw_times(failed, 0.02, random);
  EXPECT_EQ(failed.samples.size(), 3U);
  EXPECT_EQ(failed.score, 0);
  verdict without;
  without.score = 2;
  draw_times(without, 0.02, random);
  EXPECT_EQ(without.score, 2);
  EXPECT_EQ(random, 1U);
}

}  // namespace
}  // namespace cudal1
