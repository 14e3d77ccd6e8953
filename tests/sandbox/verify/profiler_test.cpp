#include "sandbox/verify/profiler.hpp"

#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

// A device whose pairs of processes are each off by a bias of their own, and whose calls are noisy.
class simulated_device {
 public:
  simulated_device(uint64_t seed, double fork_bias, double noise) : random_(seed), bias_(fork_bias), noise_(noise) {}

  timing_report measure(double score, const timing_plan& plan, int first_fork) {
    timing_report r;
    for (int f = 0; f < plan.forks; ++f) {
      const double bias = std::exp(bias_ * normal_(random_));
      for (int p = 0; p < plan.pairs; ++p) {
        timing_sample s;
        s.fork = first_fork + f;
        s.reference_us = 1000 * std::exp(noise_ * normal_(random_)) * spike();
        s.variant_us = 1000 / score * bias * std::exp(noise_ * normal_(random_)) * spike();
        r.samples.push_back(s);
      }
    }
    r.total_ms = 50.0 * plan.forks;
    return r;
  }

  // Follows the decider until it stops; renewals of the pool are counted.
  int run(timing_decider& d, double score) {
    int renewed = 0;
    while (d.next() != timing_decider::action::stop) {
      renewed += d.next() == timing_decider::action::confirm;
      d.add(measure(score, d.plan(), d.next_fork()));
    }
    return renewed;
  }

 private:
  // Now and then somebody else has the processor.
  double spike() { return uniform_(random_) < 0.03 ? 1.5 : 1.0; }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double bias_, noise_;
};

bool holds(const interval& i, double value) {
  return i.low <= value && value <= i.high;
}

double half_width(const timing_estimate& e) {
  return (e.score_interval.high - e.score_interval.low) / 2 / e.score;
}

TEST(estimate_timing, is_the_median_of_the_paired_ratios_and_repeats_itself) {
  std::vector<timing_sample> samples;
  for (int i = 0; i < 9; ++i)
    samples.push_back({i / 3, false, 100.0 + i, 50});
  samples[8].variant_us = 1;  // an outlier does not move the median
  const auto e = estimate_timing(samples);
  EXPECT_DOUBLE_EQ(e.score, 2.08);
  EXPECT_DOUBLE_EQ(e.reference_us, 104);
  EXPECT_DOUBLE_EQ(e.variant_us, 50);
  EXPECT_EQ(e.pairs, 9);
  EXPECT_EQ(e.forks, 3);
  EXPECT_TRUE(holds(e.score_interval, e.score));
  const auto again = estimate_timing(samples);
  EXPECT_EQ(again.score_interval.low, e.score_interval.low);
  EXPECT_EQ(again.score_interval.high, e.score_interval.high);
}

TEST(estimate_timing, one_fork_or_one_pair_claims_no_precision) {
  std::vector<timing_sample> samples(8, timing_sample{0, false, 100, 50});
  EXPECT_GE(half_width(estimate_timing(samples)), 0.0299);
  samples.resize(1);
  EXPECT_GE(half_width(estimate_timing(samples)), 0.0299);
}

TEST(estimate_timing, the_interval_covers_the_truth) {
  constexpr int trials = 400;
  for (const double bias : {0.0, 0.01, 0.03}) {
    for (const int forks : {3, 6, 12}) {
      int covered = 0;
      double width = 0;
      for (int t = 0; t < trials; ++t) {
        simulated_device device(static_cast<uint64_t>(t) * 7919 + 1, bias, 0.03);
        timing_plan plan;
        plan.forks = forks;
        plan.pairs = 5;
        const auto e = estimate_timing(device.measure(1.7, plan, 0).samples, 1, 400);
        covered += holds(e.score_interval, 1.7);
        width += half_width(e) / trials;
      }
      std::printf("bias of a fork %.0f%%, %2d forks: %.1f%% covered, +-%.2f%%\n", 100 * bias, forks,
                  100.0 * covered / trials, 100 * width);
      EXPECT_GE(covered, trials * 90 / 100) << bias << " " << forks;
    }
  }
}

TEST(estimate_timing, the_reference_against_itself_gives_one) {
  int covered = 0;
  for (int t = 0; t < 200; ++t) {
    simulated_device device(static_cast<uint64_t>(t) + 5000, 0.01, 0.02);
    timing_plan plan;
    plan.forks = 6;
    plan.pairs = 6;
    const auto e = estimate_timing(device.measure(1.0, plan, 0).samples, 1, 400);
    covered += holds(e.score_interval, 1.0);
    EXPECT_NEAR(e.score, 1.0, 0.05);
  }
  EXPECT_GE(covered, 180);
}

// ---- when to stop ---------------------------------------------------------------------------------------------------

TEST(timing_decider, what_is_no_improvement_stops_after_the_screening) {
  simulated_device device(1, 0.01, 0.02);
  timing_decider slow({}, 1.5), fast({}, 1.5);
  EXPECT_EQ(device.run(slow, 0.8), 0);
  EXPECT_EQ(device.run(fast, 3.0), 1);
  EXPECT_FALSE(slow.confirmed());
  EXPECT_TRUE(fast.confirmed());
  EXPECT_EQ(slow.all_samples().size(), 12u);
  EXPECT_GT(fast.all_samples().size(), 2 * slow.all_samples().size());
  EXPECT_NEAR(slow.result()->score, 0.8, 0.05) << "the screening's estimate stands";
  EXPECT_EQ(slow.samples().size(), 12u);
}

TEST(timing_decider, a_best_is_measured_with_fresh_pairs_alone_until_it_is_narrow) {
  simulated_device device(2, 0.001, 0.002);
  timing_decider d({}, 1.0);
  device.run(d, 2.0);
  ASSERT_TRUE(d.confirmed());
  EXPECT_EQ(d.samples().size(), d.all_samples().size() - 12) << "without the screening's";
  EXPECT_EQ(d.result()->pairs, static_cast<int>(d.samples().size()));
  EXPECT_GE(d.samples().front().fork, 3) << "forks are counted over the whole evaluation";
  EXPECT_LE(half_width(*d.result()), 0.01);
  EXPECT_LT(d.result()->forks, 12) << "and no longer than needed";
}

TEST(timing_decider, limits_end_what_cannot_be_measured_better) {
  simulated_device noisy(3, 0.1, 0.3);
  timing_decider by_forks({}, 1.0);
  noisy.run(by_forks, 9.0);
  EXPECT_TRUE(by_forks.confirmed());
  EXPECT_EQ(by_forks.result()->forks, 12);
  EXPECT_GT(half_width(*by_forks.result()), 0.01) << "the interval says how well it went";

  profiling_options short_time;
  short_time.max_seconds = 0.3;  // the simulated device takes 0.15 s for each batch
  timing_decider by_time(short_time, 1.0);
  noisy.run(by_time, 9.0);
  EXPECT_TRUE(by_time.confirmed());
  EXPECT_EQ(by_time.result()->forks, 3);
}

TEST(timing_decider, a_lucky_screening_is_found_out) {
  simulated_device device(4, 0.001, 0.002);
  timing_decider d({}, 2.0);
  d.add(device.measure(2.3, d.plan(), 0));  // too good
  ASSERT_EQ(d.next(), timing_decider::action::confirm);
  d.add(device.measure(1.5, d.plan(), d.next_fork()));
  EXPECT_EQ(d.next(), timing_decider::action::stop);
  EXPECT_FALSE(d.confirmed());
  EXPECT_NEAR(d.result()->score, 1.5, 0.02) << "of the fresh samples";
}

TEST(timing_decider, faults_and_clocks_that_stand_still_end_the_measurement) {
  simulated_device device(5, 0.01, 0.02);
  timing_decider faulty({}, 1.0);
  timing_report r = device.measure(2, faulty.plan(), 0);
  r.problem = fault{outcome::hang, "no answer"};
  faulty.add(r);
  EXPECT_EQ(faulty.next(), timing_decider::action::stop);
  EXPECT_FALSE(faulty.confirmed());

  timing_decider inconsistent({}, 1.0);
  r = device.measure(2, inconsistent.plan(), 0);
  r.inconsistency = "other bits";
  inconsistent.add(r);
  EXPECT_EQ(inconsistent.next(), timing_decider::action::stop);

  timing_decider stopped({}, 1.0);
  r = device.measure(2, stopped.plan(), 0);
  for (auto& s : r.samples)
    s.variant_us = 0;
  stopped.add(r);
  EXPECT_EQ(stopped.next(), timing_decider::action::stop);
  EXPECT_FALSE(stopped.result());
}

TEST(timing_decider, confirmation_takes_away_the_bias_of_the_best_of_many) {
  constexpr int searches = 40, variants = 50;
  double screened = 0, confirmed = 0;
  for (int s = 0; s < searches; ++s) {
    simulated_device device(static_cast<uint64_t>(s) + 900, 0.015, 0.02);
    // Fifty variants that are equally fast; the one that looks best is confirmed.
    std::optional<timing_decider> best;
    for (int v = 0; v < variants; ++v) {
      timing_decider d({}, 1.0);
      d.add(device.measure(1.5, d.plan(), 0));
      if (!best || d.result()->score > best->result()->score) best = d;
    }
    screened += best->result()->score / searches;
    device.run(*best, 1.5);
    EXPECT_TRUE(best->confirmed());
    confirmed += best->result()->score / searches;
  }
  std::printf("best of %d equal variants of 1.500: %.4f when screened, %.4f when confirmed\n", variants, screened,
              confirmed);
  EXPECT_GT(screened, 1.5 * 1.015);
  EXPECT_NEAR(confirmed, 1.5, 1.5 * 0.004);
}

}  // namespace
}  // namespace cudal1
