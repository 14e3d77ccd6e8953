#include "sandbox/verify/profiler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "sandbox/device/device_type.hpp"
#include "sandbox/verify/scored_samples.hpp"

namespace cudal1 {
namespace {

// A device with a separate bias for each pair of processes, and noisy calls.
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

  // Measures until the decider stops. Returns the number of renewals of the pool.
  int run(timing_decider& d, double score) {
    int renewed = 0;
    while (d.next() != timing_decider::action::stop) {
      renewed += d.next() == timing_decider::action::confirm;
      d.add(measure(score, d.plan(), d.next_fork()));
    }
    return renewed;
  }

 private:
  // Sometimes another process has the processor.
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

TEST(estimate_timing, is_the_median_of_the_paired_ratios_and_deterministic) {
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

TEST(estimate_timing, one_fork_or_one_pair_gives_a_wide_interval) {
  std::vector<timing_sample> samples(8, timing_sample{0, false, 100, 50});
  EXPECT_GE(half_width(estimate_timing(samples)), 0.0299);
  samples.resize(1);
  EXPECT_GE(half_width(estimate_timing(samples)), 0.0299);
}

profiling_options gpu_options() {
  return default_configuration("cuda").timing;
}

struct plan_case {
  int forks, pairs;
  double most_width;  // bound on the median half width at the highest noise
};

struct coverage {
  double covered = 0, half_width = 0;  // share of trials, and median
};

coverage coverage_of(double bias, double noise, const plan_case& c, double usual_bias) {
  constexpr int trials = 1000;
  int covered = 0;
  std::vector<double> widths;
  simulated_device device(static_cast<uint64_t>(1e6 * bias + 1e3 * noise) + 17, bias, noise);
  timing_plan plan;
  plan.forks = c.forks;
  plan.pairs = c.pairs;
  for (int t = 0; t < trials; ++t) {
    const auto e = estimate_timing(device.measure(1.7, plan, 0).samples, usual_bias);
    covered += holds(e.score_interval, 1.7);
    widths.push_back(half_width(e));
  }
  std::nth_element(widths.begin(), widths.begin() + trials / 2, widths.end());
  const coverage result{1.0 * covered / trials, widths[trials / 2]};
  std::printf("bias of a fork %.1f%%, noise of a call %4.1f%%, %2d forks x %d pairs: %5.1f%% covered, +-%.2f%%\n",
              100 * bias, 100 * noise, c.forks, c.pairs, 100 * result.covered, 100 * result.half_width);
  return result;
}

TEST(estimate_timing, the_interval_covers_the_true_score_and_is_narrow) {
  for (const double bias : {0.0, 0.01, 0.02, 0.03})
    for (const double noise : {0.03, 0.08, 0.15})
      for (const auto& c : {plan_case{3, 4, 0.22}, {6, 6, 0.12}, {12, 6, 0.08}}) {
        const coverage found = coverage_of(bias, noise, c, profiling_options{}.fork_bias);
        EXPECT_GE(found.covered, 0.93) << bias << " " << noise << " " << c.forks;
        EXPECT_LE(found.half_width, c.most_width) << bias << " " << noise << " " << c.forks;
      }
}

TEST(estimate_timing, on_a_gpu_the_interval_is_as_wide_as_its_noise) {
  const double usual = gpu_options().fork_bias;
  for (const double bias : {0.0, 0.002, 0.005})
    for (const double noise : {0.003, 0.01, 0.05})
      for (const auto& c : {plan_case{2, 5, 0.085}, {2, 7, 0.065}, {4, 7, 0.045}, {12, 7, 0.025}}) {
        const coverage found = coverage_of(bias, noise, c, usual);
        EXPECT_GE(found.covered, 0.93) << bias << " " << noise << " " << c.forks;
        EXPECT_LE(found.half_width, c.most_width) << bias << " " << noise << " " << c.forks;
        if (noise <= 0.003 && bias <= 0.002) {
          EXPECT_LE(found.half_width, 0.0101) << c.forks;
        }
      }
}

// The reference against itself takes about 200,000 times the square of a call's noise in pairs, and more if the bias of
// a fork requires it. Measured until the interval is narrow enough, 99 of 100 runs are within 1%.
TEST(estimate_timing, on_a_gpu_the_reference_against_itself_is_within_one_percent) {
  constexpr int trials = 200, noises = 5;
  int within = 0;
  for (const double noise : {0.003, 0.01, 0.02, 0.03, 0.05}) {
    simulated_device device(static_cast<uint64_t>(1e5 * noise) + 31, 0.002, noise);
    double pairs = 0, worst = 0;
    for (int t = 0; t < trials; ++t) {
      std::vector<timing_sample> samples;
      timing_plan plan;
      plan.forks = 4;
      plan.pairs = 7;
      timing_estimate e;
      do {
        const auto more = device.measure(1, plan, static_cast<int>(samples.size()) / plan.pairs).samples;
        samples.insert(samples.end(), more.begin(), more.end());
        e = estimate_timing(samples, gpu_options().fork_bias);
      } while (half_width(e) > 0.0075 && e.forks < 100);
      within += std::abs(e.score - 1) <= 0.01 ? 1 : 0;
      worst = std::max(worst, std::abs(e.score - 1));
      pairs += 1.0 * e.pairs / trials;
    }
    std::printf("noise of a call %.1f%%: %.0f pairs, largest error of %d runs %.2f%%\n", 100 * noise, pairs, trials,
                100 * worst);
  }
  EXPECT_GE(within, trials * noises * 99 / 100);
}

TEST(estimate_timing, forks_that_differ_more_than_their_noise_widen_the_interval) {
  std::vector<timing_sample> alike, apart;
  for (int fork = 0; fork < 6; ++fork)
    for (int pair = 0; pair < 6; ++pair) {
      alike.push_back({fork, false, 100 + 0.5 * pair, 50});
      apart.push_back({fork, false, (100 + 0.5 * pair) * (fork % 2 == 0 ? 1.2 : 1), 50});
    }
  EXPECT_GT(half_width(estimate_timing(apart)), 3 * half_width(estimate_timing(alike)));
}

TEST(estimate_timing, outliers_in_a_quarter_of_the_pairs_change_little) {
  std::vector<timing_sample> samples;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 48; ++i)
    samples.push_back({i / 8, false, 100 * std::exp(0.03 * normal(random)), 50});
  const auto clean = estimate_timing(samples);
  for (std::size_t i = 0; i < samples.size(); i += 4)
    samples[i].reference_us *= i % 8 == 0 ? 10 : 0.1;
  const auto spoiled = estimate_timing(samples);
  EXPECT_NEAR(spoiled.score, clean.score, 0.03 * clean.score);
  EXPECT_LT(half_width(spoiled), 3 * half_width(clean));
}

TEST(estimate_timing, the_reference_against_itself_gives_one) {
  int covered = 0;
  for (int t = 0; t < 200; ++t) {
    simulated_device device(static_cast<uint64_t>(t) + 5000, 0.01, 0.02);
    timing_plan plan;
    plan.forks = 6;
    plan.pairs = 6;
    const auto e = estimate_timing(device.measure(1.0, plan, 0).samples);
    covered += holds(e.score_interval, 1.0);
    EXPECT_NEAR(e.score, 1.0, 0.05);
  }
  EXPECT_GE(covered, 180);
}

// ---- when to stop ---------------------------------------------------------------------------------------------------

TEST(timing_decider, a_variant_that_is_no_improvement_stops_after_screening) {
  simulated_device device(1, 0.01, 0.02);
  timing_decider slow({}, 1.5), fast({}, 1.5);
  EXPECT_EQ(device.run(slow, 0.8), 0);
  EXPECT_EQ(device.run(fast, 3.0), 1);
  EXPECT_FALSE(slow.confirmed());
  EXPECT_TRUE(fast.confirmed());
  EXPECT_EQ(slow.all_samples().size(), 12u);
  EXPECT_GT(fast.all_samples().size(), 2 * slow.all_samples().size());
  EXPECT_NEAR(slow.result()->score, 0.8, 0.05) << "the screening's estimate is final";
  EXPECT_EQ(slow.samples().size(), 12u);
}

TEST(timing_decider, a_best_is_measured_with_fresh_pairs_until_it_is_decided) {
  simulated_device device(2, 0.001, 0.002);
  timing_decider d({}, 1.0);
  device.run(d, 2.0);
  ASSERT_TRUE(d.confirmed());
  EXPECT_EQ(d.samples().size(), d.all_samples().size() - 12) << "without the screening's";
  EXPECT_EQ(d.result()->pairs, static_cast<int>(d.samples().size()));
  EXPECT_GE(d.samples().front().fork, 3) << "forks are counted over the whole evaluation";
  EXPECT_LE(half_width(*d.result()), 0.05);
  EXPECT_EQ(d.result()->forks, 3) << "far above the old best, and known to 5%";

  // Close to the old best it continues to the target width, or until the interval is on one side.
  profiling_options long_limits;
  long_limits.max_forks = 100;
  long_limits.max_seconds = 100;
  timing_decider close(long_limits, 1.99);
  device.run(close, 2.0);
  const auto e = *close.result();
  EXPECT_TRUE(half_width(e) <= 0.02 || e.score <= 1.99) << half_width(e);
  EXPECT_LT(e.forks, 12);
}

TEST(estimate_timing, takes_medians_of_the_device_times_that_were_measured) {
  std::vector<timing_sample> samples(6, {.fork = 0, .reference_us = 30, .variant_us = 20});
  EXPECT_EQ(estimate_timing(samples).variant_device_us, 0);
  EXPECT_EQ(estimate_timing(samples).variant_warm_us, 0);
  for (const std::size_t i : {0u, 2u, 5u}) {
    samples[i].reference_device_us = 20;
    samples[i].variant_device_us = 9 + static_cast<double>(i);
    samples[i].reference_warm_us = 15;
    samples[i].variant_warm_us = 6 + static_cast<double>(i);
  }
  const timing_estimate e = estimate_timing(samples);
  EXPECT_EQ(e.variant_device_us, 11);
  EXPECT_EQ(e.variant_warm_us, 8);
  EXPECT_EQ(e.reference_device_us, 20);
  EXPECT_EQ(e.reference_warm_us, 15);
}

TEST(estimate_timing, is_by_device_times_where_asked_and_all_samples_have_them) {
  std::vector<timing_sample> samples;
  // Calls that vary with the host, and device times that do not.
  for (int i = 0; i < 12; ++i)
    samples.push_back({.fork = i / 4,
                       .reference_us = 30.0 + 5 * (i % 3),
                       .variant_us = 25.0 - 4 * (i % 2),
                       .reference_device_us = 12,
                       .variant_device_us = 8 + 0.01 * (i % 2)});
  const timing_estimate calls = estimate_timing(samples, 0.004);
  const timing_estimate device = estimate_timing(samples, 0.004, score_clock::device);
  EXPECT_EQ(calls.scored_by, score_clock::call);
  EXPECT_EQ(device.scored_by, score_clock::device);
  EXPECT_NEAR(device.score, 1.5, 0.01);
  EXPECT_LT(half_width(device), 0.1 * half_width(calls));
  EXPECT_EQ(device.variant_us, calls.variant_us);
  EXPECT_EQ(samples_of_score(samples, device).size(), samples.size());
  measured_score of_other_clock = device;
  of_other_clock.scored_by = score_clock::call;
  EXPECT_TRUE(samples_of_score(samples, of_other_clock).empty());
  samples[7].variant_device_us = 0;
  const timing_estimate incomplete = estimate_timing(samples, 0.004, score_clock::device);
  EXPECT_EQ(incomplete.scored_by, score_clock::call);
  EXPECT_EQ(incomplete.score, calls.score);
}

// By its calls the second one seems faster, by a host that was slower for its reference.
TEST(timing_decider, a_part_is_decided_by_its_device_time) {
  measured_score best{1.5, {1.49, 1.51}, 30, 20, 12, 8};
  best.scored_by = score_clock::device;
  timing_decider d(profiling_options{.fork_bias = 0.004}, best, score_clock::device);
  timing_report slower;
  for (int i = 0; i < 20; ++i)
    slower.samples.push_back({.fork = i / 5,
                              .reference_us = 60,
                              .variant_us = 15,
                              .reference_device_us = 12,
                              .variant_device_us = 9 + 0.01 * (i % 2)});
  d.add(slower);
  EXPECT_EQ(d.next(), timing_decider::action::stop);
  EXPECT_FALSE(d.confirmed());
  EXPECT_NEAR(d.result().value().score, 12 / 9.0, 0.01);
}

// The best was measured when the host took longer for the reference (23 us), which made its score the higher.
TEST(timing_decider, a_best_that_was_measured_on_a_slower_host_does_not_hide_a_faster_variant) {
  const measured_score best{4.138, {4, 4.3}, 86.995, 19.842, 39.472, 9.664};
  const auto confirmed = [](timing_decider d) {
    for (int fork = 0; d.next() != timing_decider::action::stop; ++fork) {
      timing_report r;
      for (int f = 0; f < d.plan().forks; ++f)
        for (int p = 0; p < d.plan().pairs; ++p)
          r.samples.push_back({.fork = d.next_fork() + f,
                               .reference_us = 60.5 + 0.1 * (p % 3),
                               .variant_us = 16.1 + 0.05 * (p % 2),
                               .reference_device_us = 39.25,
                               .variant_device_us = 8.4});
      r.total_ms = 1;
      d.add(r);
    }
    return d.confirmed();
  };
  profiling_options options;
  options.fork_bias = 0.004;
  EXPECT_TRUE(confirmed({options, best}));
  EXPECT_FALSE(confirmed({options, best.score})) << "as scores alone say, 3.76 against 4.14";
}

TEST(timing_decider, screening_adds_forks_only_while_the_decision_needs_them) {
  const profiling_options defaults;
  int noisy_forks = 0, plain_forks = 0, quiet_forks = 0;
  constexpr int trials = 50;
  for (int t = 0; t < trials; ++t) {
    simulated_device noisy(static_cast<uint64_t>(t) + 70, 0.02, 0.2), quiet(static_cast<uint64_t>(t) + 70, 0.02, 0.03);
    const auto screen = [&](simulated_device& device, double score) {
      timing_decider d(defaults, 1.5);
      while (d.next() == timing_decider::action::measure)
        d.add(device.measure(score, d.plan(), d.next_fork()));
      return d.result()->forks;
    };
    noisy_forks += screen(noisy, 1.5);
    plain_forks += screen(noisy, 0.3);
    quiet_forks += screen(quiet, 1.5);
    EXPECT_LE(screen(noisy, 1.5), defaults.max_screening_forks);
  }
  std::printf("forks of a screening: %.1f noisy and close to the best, %.1f noisy and far below, %.1f quiet\n",
              1.0 * noisy_forks / trials, 1.0 * plain_forks / trials, 1.0 * quiet_forks / trials);
  EXPECT_GT(noisy_forks, 5 * trials);
  EXPECT_EQ(plain_forks, 3 * trials) << "its interval is wide, but entirely below the best";
  EXPECT_EQ(quiet_forks, 3 * trials);
}

// A correct variant on a noisy machine: how often it would be unmeasurable, and how long the measurement takes.
TEST(timing_decider, a_noisy_machine_measures_nearly_every_variant_at_a_bounded_cost) {
  const profiling_options defaults;
  constexpr int trials = 200;
  for (const double noise : {0.03, 0.12, 0.15}) {
    for (const double score : {0.5, 1.0, 1.45, 1.6, 3.0}) {
      int unmeasurable = 0, confirmed = 0;
      double seconds = 0, most = 0;
      simulated_device device(static_cast<uint64_t>(100 * score + 1e4 * noise), 0.02, noise);
      for (int t = 0; t < trials; ++t) {
        timing_decider d(defaults, 1.5);
        device.run(d, score);
        unmeasurable += half_width(*d.result()) > (d.confirmed() ? defaults.confirmed_limit : defaults.screened_limit);
        confirmed += d.confirmed();
        const double took = 0.05 * static_cast<double>(d.next_fork());  // as the simulated device reports it
        seconds += took / trials;
        most = std::max(most, took);
      }
      std::printf(
          "noise %2.0f%%, %.2fx against 1.50x: %4.1f%% confirmed, %4.1f%% unmeasurable, %.2f s, at most %.2f s\n",
          100 * noise, score, 100.0 * confirmed / trials, 100.0 * unmeasurable / trials, seconds, most);
      EXPECT_EQ(unmeasurable, 0) << noise << " " << score;
      EXPECT_LE(most, defaults.max_seconds + 0.15);
      if (score < 1.1) {
        EXPECT_EQ(confirmed, 0) << noise << " " << score;
      }
      if (score > 2) {
        EXPECT_GE(confirmed, trials * 98 / 100) << noise << " " << score;
      }
    }
  }
}

TEST(timing_decider, on_a_gpu_ten_pairs_screen_a_slow_variant_and_few_more_confirm_a_best) {
  const profiling_options options = gpu_options();
  constexpr int trials = 200;
  struct found {
    double pairs = 0, confirmed = 0, renewed = 0;
  };
  const auto search = [&](double score, double noise) {
    found all;
    simulated_device device(static_cast<uint64_t>(1000 * score + 1e5 * noise), 0.002, noise);
    for (int t = 0; t < trials; ++t) {
      timing_decider d(options, 1.5);
      all.renewed += 1.0 * device.run(d, score) / trials;
      all.pairs += 1.0 * static_cast<double>(d.all_samples().size()) / trials;
      all.confirmed += d.confirmed() ? 1.0 / trials : 0;
      EXPECT_LE(half_width(*d.result()), d.confirmed() ? options.confirmed_limit : options.screened_limit);
    }
    std::printf("%.3fx against 1.5x, noise of a call %.1f%%: %.1f pairs, %.0f%% renewed, %.0f%% confirmed\n", score,
                100 * noise, all.pairs, 100 * all.renewed, 100 * all.confirmed);
    return all;
  };
  for (const double noise : {0.003, 0.01, 0.05}) {
    for (const double score : {0.3, 1.0, 1.3}) {
      const found loser = search(score, noise);
      EXPECT_NEAR(loser.pairs, 10, 1) << score << " " << noise;
      EXPECT_EQ(loser.renewed, 0) << score << " " << noise;
    }
    const found winner = search(1.8, noise);
    EXPECT_GE(winner.confirmed, 0.98) << noise;
    EXPECT_LE(winner.pairs, noise > 0.01 ? 80 : 26) << noise;
  }
  for (const double noise : {0.003, 0.01})
    EXPECT_LE(search(1.5, noise).renewed, 0.1) << "as fast as the best: the pool is rarely renewed";
  EXPECT_GE(search(1.53, 0.003).confirmed, 0.95) << "2% faster";
}

TEST(timing_decider, limits_end_the_measurement) {
  simulated_device noisy(3, 0.1, 0.12);
  timing_decider by_forks({}, 1.0);
  noisy.run(by_forks, 1.3);
  EXPECT_TRUE(by_forks.confirmed());
  EXPECT_EQ(by_forks.result()->forks, 12);
  EXPECT_GT(half_width(*by_forks.result()), 0.05) << "the interval shows the precision";

  profiling_options short_time;
  short_time.max_seconds = 0.3;  // the simulated device takes 0.15 s for each batch
  timing_decider by_time(short_time, 1.0);
  noisy.run(by_time, 9.0);
  EXPECT_TRUE(by_time.confirmed());
  EXPECT_EQ(by_time.result()->forks, 3);

  // Forks that take long: as many as the time still allows, not a whole batch.
  profiling_options slow;
  slow.max_seconds = 0.25;
  timing_decider few(slow, 1.0);
  noisy.run(few, 9.0);
  EXPECT_EQ(few.result()->forks, 2);
}

TEST(timing_decider, a_best_with_too_wide_an_interval_is_not_confirmed) {
  for (const double best : {1.0, 20.0}) {
    simulated_device noisy(8, 0.1, 0.9);
    timing_decider d({}, best);
    noisy.run(d, 30);
    const double width = half_width(*d.result());
    EXPECT_GT(width, 0.25);
    EXPECT_LT(width, 0.5);
    EXPECT_EQ(d.confirmed(), best == 1.0) << "a score of 30 is clearly above 1, but not above 20";
  }
}

TEST(timing_decider, confirmation_detects_a_lucky_screening) {
  simulated_device device(4, 0.001, 0.002);
  timing_decider d({}, 2.0);
  d.add(device.measure(2.3, d.plan(), 0));  // better than the variant really is
  ASSERT_EQ(d.next(), timing_decider::action::confirm);
  d.add(device.measure(1.5, d.plan(), d.next_fork()));
  EXPECT_EQ(d.next(), timing_decider::action::stop);
  EXPECT_FALSE(d.confirmed());
  EXPECT_NEAR(d.result()->score, 1.5, 0.02) << "of the fresh samples";
}

TEST(timing_decider, faults_and_stopped_clocks_end_the_measurement) {
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

TEST(timing_decider, confirmation_removes_the_bias_of_the_best_of_many) {
  constexpr int searches = 40, variants = 50;
  double screened = 0, confirmed = 0;
  for (int s = 0; s < searches; ++s) {
    simulated_device device(static_cast<uint64_t>(s) + 900, 0.015, 0.02);
    // Fifty equally fast variants; the one with the best screening is confirmed.
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
