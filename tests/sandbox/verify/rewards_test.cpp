// Rewards against groups that were computed by hand, and what holds for every group.
#include "sandbox/verify/rewards.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "sandbox/verify/profiler.hpp"

namespace cudal1 {
namespace {

std::vector<timing_sample> with_score(double score, std::size_t count) {
  return std::vector<timing_sample>(count, timing_sample{0, false, 1000 * score, 1000});
}

// Correct, with samples that give the score, and an interval of that half width.
reward_member correct(double score, double half_width = 0.001) {
  reward_member m;
  m.variant = fmt::format("of {}", score);
  m.samples = with_score(score, 14);
  m.score = estimate_timing(m.samples).score;
  m.score_interval = {m.score - half_width, m.score + half_width};
  return m;
}

reward_member failed(outcome o = outcome::wrong_answer) {
  reward_member m;
  m.result = o;
  return m;
}

// The paper's rule: no floor.
reward_options plain() {
  reward_options r;
  r.least_deviation = r.noise_floor = 0;
  return r;
}

std::vector<double> rewards_of(const std::vector<reward_member>& members, const reward_options& rules = plain()) {
  std::vector<double> out;
  const auto paid = pay_group(members, rules).value();
  for (const auto& m : paid.members)
    out.push_back(m.reward);
  return out;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double by = 1e-9) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], by) << i;
}

bool says(const std::vector<std::string>& steps, const std::string& what) {
  return std::ranges::any_of(steps, [&](const std::string& s) { return s.find(what) != std::string::npos; });
}

// ---- by hand --------------------------------------------------------------------------------------------------------

TEST(rewards, are_normalised_with_failures_as_zero) {
  expect_near(rewards_of({failed(), failed(), correct(1), correct(1)}), {-1, -1, 1, 1});
  // Scores 0, 1, 2, 3: mean 1.5, deviation sqrt(1.25).
  const double d = std::sqrt(1.25);
  expect_near(rewards_of({failed(outcome::crash), correct(1), correct(2), correct(3)}),
              {-1.5 / d, -0.5 / d, 0.5 / d, 1.5 / d});
  EXPECT_TRUE(rewards_of({}).empty());
}

TEST(rewards, of_equal_scores_and_of_a_single_member_are_zero) {
  EXPECT_EQ(rewards_of({correct(2), correct(2), correct(2)}), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(rewards_of({correct(5)}), std::vector<double>{0});
  EXPECT_EQ(rewards_of({failed(), failed()}), (std::vector<double>{0, 0}));
}

TEST(rewards, of_a_lucky_outlier_are_clipped) {
  std::vector<reward_member> members(7, correct(1));
  members.push_back(correct(1000));
  const auto paid = pay_group(members, plain()).value();
  EXPECT_EQ(paid.members.back().reward, 1.5);
  EXPECT_GT(paid.members.back().normalised, 2.6);
  EXPECT_TRUE(says(paid.members.back().steps, "clipped to +-1.5: the reward is 1.5"));
  auto wider = plain();
  wider.clip = 10;
  EXPECT_EQ(rewards_of(members, wider).back(), paid.members.back().normalised);
}

TEST(rewards, have_a_floor_under_the_deviation) {
  // Scores 1.00 and 1.01: deviation 0.005.
  auto rules = plain();
  expect_near(rewards_of({correct(1), correct(1.01)}, rules), {-1, 1});
  rules.least_deviation = 0.02;
  expect_near(rewards_of({correct(1), correct(1.01)}, rules), {-0.25, 0.25});
  // Half widths 0.03 and 0.01: root mean square sqrt(0.0005).
  rules.noise_floor = 2;
  const double by = 2 * std::sqrt(0.0005);
  const auto paid = pay_group(std::vector{correct(1, 0.03), correct(1.01, 0.01)}, rules).value();
  EXPECT_NEAR(paid.floor, by, 1e-12);
  EXPECT_NEAR(paid.deviation, 0.005, 1e-12);
  EXPECT_NEAR(paid.members[1].reward, 0.005 / by, 1e-9);
  EXPECT_TRUE(says(paid.steps, "the floor under the deviation is 0.0447214")) << paid.steps[1];
}

TEST(rewards, by_logarithms_count_ratios_and_a_failure_as_its_own_score) {
  auto rules = plain();
  rules.logarithm = true;
  // Logarithms of 1, 2, 4 are equally far apart: 0, l, 2l; deviation l sqrt(2/3).
  const double x = 1 / std::sqrt(2.0 / 3);
  expect_near(rewards_of({correct(1), correct(2), correct(4)}, rules), {-x, 0, x});
  expect_near(rewards_of({failed(), correct(1), correct(4)}, rules), {-x, 0, x});
  expect_near(rewards_of({correct(0.1), correct(1), correct(4)}, rules), {-x, 0, x});
  const auto paid = pay_group(std::vector{correct(2, 0.02), failed()}, rules).value();
  EXPECT_NEAR(paid.members[0].half_width, std::log(2.02 / 1.98) / 2, 1e-12);
}

TEST(rewards, by_the_papers_rule_are_of_rounded_medians_and_pay_nothing_for_what_it_throws_away) {
  auto rules = plain();
  rules.rule = "cuda_l1";
  auto noisy = correct(2);
  noisy.samples[0].reference_us = 2800;
  noisy.score = estimate_timing(noisy.samples).score;
  auto few = correct(3);
  few.samples.resize(6);
  const auto paid = pay_group(std::vector{correct(1.118), correct(1.309), noisy, few}, rules).value();
  EXPECT_EQ(paid.members[0].score, 1.11);
  EXPECT_EQ(paid.members[1].score, 1.30);
  EXPECT_NEAR(paid.mean, 1.205, 1e-12);
  expect_near({paid.members[0].reward, paid.members[1].reward}, {-1, 1});
  for (const std::size_t i : {2, 3}) {
    EXPECT_FALSE(paid.members[i].counts);
    EXPECT_EQ(paid.members[i].reward, 0);
  }
  EXPECT_TRUE(says(paid.members[2].steps, "throws it away")) << paid.members[2].doubt;
  EXPECT_TRUE(says(paid.members[3].steps, "needs 7 pairs, and there are 6")) << paid.members[3].doubt;
}

// Of which the reference took so long on the host, and the variant as long as one launch; 20 us on the device both.
reward_member with_host_time(double reference_us, double variant_us, double variant_device_us = 20) {
  reward_member m = correct(reference_us / variant_us);
  m.reference_us = reference_us;
  m.variant_us = variant_us;
  m.reference_device_us = 20;
  m.variant_device_us = variant_device_us;
  return m;
}

TEST(rewards, are_of_scores_at_one_pace_of_the_host) {
  // The same program three times, while the host took 20, 40 and 80 us for the reference; the second is the pace.
  const std::vector<reward_member> members{with_host_time(40, 25), with_host_time(60, 20 + 5 * std::pow(2, 0.4)),
                                           with_host_time(100, 20 + 5 * std::pow(4, 0.4)), failed()};
  auto measured = plain();
  measured.rule = "score";
  const auto as_measured = pay_group(members, measured).value();
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(as_measured.members[i].score, members[i].score);
  const auto paid = pay_group(members, plain()).value();
  EXPECT_EQ(paid.members[1].score, members[1].score);
  EXPECT_FALSE(says(paid.members[1].steps, "middle pace"));
  EXPECT_TRUE(says(paid.members[0].steps, "the reference took 40 us; at the middle pace"));
  const auto apart = [](const paid_group& g) { return std::abs(std::log(g.members[0].score / g.members[2].score)); };
  EXPECT_GT(apart(as_measured), 0.5);
  EXPECT_LT(apart(paid), 0.05) << "it is one program";
  EXPECT_GT(paid.members[0].score, members[0].score) << "of a faster host";
  EXPECT_NEAR(paid.members[0].half_width / paid.members[0].score,
              as_measured.members[0].half_width / as_measured.members[0].score, 1e-12);
  // What is doubted is no pace of others.
  auto slow = with_host_time(1000, 25);
  slow.doubt = "of the test";
  auto with_doubted = members;
  with_doubted.insert(with_doubted.begin(), slow);
  const auto again = pay_group(with_doubted, plain()).value();
  EXPECT_EQ(again.members[0].reward, 0);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(again.members[i + 1].reward, paid.members[i].reward);
  // Without device times nothing is known of the pace.
  auto unknown = members;
  for (auto& m : unknown)
    m.reference_device_us = 0;
  expect_near(rewards_of(unknown), rewards_of(unknown, measured));
}

TEST(rewards, of_an_unknown_rule_are_an_error) {
  auto rules = plain();
  rules.rule = "cuda-l1";
  const auto paid = pay_group(std::vector{correct(1)}, rules);
  ASSERT_FALSE(paid);
  EXPECT_EQ(paid.error().code, errc::invalid_argument);
  EXPECT_NE(paid.error().message.find("cuda_l1"), std::string::npos) << paid.error().message;
}

// ---- doubts ---------------------------------------------------------------------------------------------------------

TEST(rewards, of_what_is_doubted_are_nothing_and_move_no_other) {
  const std::vector<reward_member> honest{correct(1), correct(1.5), failed()};
  const auto alone = rewards_of(honest);
  auto suspicious = correct(900);
  suspicious.doubt = "suspicious, and not checked more deeply: faster than its arithmetic";
  auto claimed = correct(800);
  claimed.score = claimed.score_interval.high = 801;
  auto outside = correct(700);
  outside.score_interval = {1, 2};
  auto without_samples = correct(600);
  without_samples.samples.clear();
  auto infinite = correct(500);
  infinite.score = std::numeric_limits<double>::infinity();
  for (const auto& doubted : {suspicious, claimed, outside, without_samples, infinite, failed(outcome::unmeasurable),
                              failed(outcome::unexplained), failed(outcome::quarantined)}) {
    auto members = honest;
    members.push_back(doubted);
    const auto paid = pay_group(members, plain()).value();
    EXPECT_EQ(paid.members.back().reward, 0);
    EXPECT_FALSE(paid.members.back().counts);
    EXPECT_FALSE(paid.members.back().doubt.empty());
    EXPECT_TRUE(says(paid.members.back().steps, "paid nothing"));
    auto others = rewards_of(members);
    others.pop_back();
    expect_near(others, alone);
  }
}

TEST(rewards, doubt_a_verdict_by_its_gates_and_its_suspicion) {
  verdict v;
  v.samples = with_score(2, 14);
  static_cast<measured_score&>(v) = estimate_timing(v.samples);
  v.gates = {{"1 form", true, ""}};
  EXPECT_EQ(reward_member_of(v).doubt, "");
  v.suspicion = "faster than its arithmetic";
  EXPECT_NE(reward_member_of(v).doubt.find("not checked more deeply"), std::string::npos);
  v.gates.push_back({deep_check_gate, true, "on fresh draws: correct"});
  EXPECT_EQ(reward_member_of(v).doubt, "");
  EXPECT_EQ(reward_member_of(v).cleared, v.suspicion);
  EXPECT_TRUE(says(pay_group(std::vector{reward_member_of(v)}, plain()).value().members[0].steps, "found no fault"));
  v.gates.push_back({"audit: clocks", false, "they do not agree"});
  EXPECT_NE(reward_member_of(v).doubt.find("audit: clocks"), std::string::npos);
  v.result = outcome::inconsistent;
  EXPECT_EQ(reward_member_of(v).doubt, "") << "refused: a failed variant, whose score is 0";
}

TEST(rewards, count_reused_and_repeated_verdicts_and_say_so) {
  auto reused = correct(2);
  reused.reused_from = "e1";
  auto repeated = correct(1);
  repeated.repeated = true;
  const auto paid = pay_group(std::vector{reused, repeated}, plain()).value();
  expect_near({paid.members[0].reward, paid.members[1].reward}, {1, -1});
  EXPECT_TRUE(says(paid.members[0].steps, "reused from e1"));
  EXPECT_TRUE(says(paid.members[1].steps, "proposed before"));
}

TEST(rewards, are_of_the_samples_that_the_score_is_of) {
  // A screening of 2.5 and a confirmation of 1.5, whose pairs alone count.
  auto m = correct(1.5);
  auto all = with_score(2.5, 20);
  for (auto& s : m.samples)
    s.fork = 1;
  all.insert(all.end(), m.samples.begin(), m.samples.end());
  m.samples = all;
  const auto paid = pay_group(std::vector{m}, plain()).value();
  EXPECT_TRUE(says(paid.members[0].steps, "the 14 pairs of forks 1 to 1 (of 34 measured)"));
}

// ---- properties -----------------------------------------------------------------------------------------------------

TEST(rewards, of_random_groups_are_bounded_ordered_and_centred_unless_clipped) {
  std::mt19937_64 random(20261124);
  for (int round = 0; round < 300; ++round) {
    std::vector<reward_member> members;
    for (std::size_t i = 0; i < 2 + random() % 14; ++i) {
      auto m = random() % 4 == 0 ? failed()
                                 : correct(0.5 + static_cast<double>(random() % 1000) / 100,
                                           static_cast<double>(random() % 100) / 1000);
      if (random() % 6 == 0) m.doubt = "of the test";
      if (m.result == outcome::correct && m.score_interval.low <= 0) m.score_interval.low = m.score / 2;
      members.push_back(m);
    }
    reward_options rules;
    rules.logarithm = random() % 2 == 0;
    const auto paid = pay_group(members, rules).value();
    double sum = 0;
    bool clipped = false;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto& m = paid.members[i];
      EXPECT_LE(std::abs(m.reward), rules.clip);
      EXPECT_EQ(m.counts, m.doubt.empty());
      EXPECT_TRUE(m.counts || m.reward == 0);
      clipped |= m.reward != m.normalised;
      sum += m.reward;
      for (const auto& other : paid.members)
        EXPECT_TRUE(!m.counts || !other.counts || m.score <= other.score || m.reward >= other.reward);
    }
    EXPECT_TRUE(clipped || std::abs(sum) <= 1e-9) << "round " << round << ": " << sum;
    EXPECT_GE(paid.floor, rules.least_deviation);
    EXPECT_EQ(to_text(pay_group(members, rules).value()), to_text(paid));
  }
}

// ---- the paper's rule -----------------------------------------------------------------------------------------------

TEST(cuda_l1_score, is_rounded_toward_one_to_two_decimals) {
  EXPECT_EQ(cuda_l1_score(with_score(1.118, 70)).score, 1.11);
  EXPECT_EQ(cuda_l1_score(with_score(0.992, 70)).score, 1.00);
  EXPECT_EQ(cuda_l1_score(with_score(0.985, 70)).score, 0.99);
  EXPECT_EQ(cuda_l1_score(with_score(1.12, 7)).score, 1.12);
  EXPECT_EQ(cuda_l1_score(with_score(0.87, 7)).score, 0.87);
  EXPECT_EQ(cuda_l1_score(with_score(1.0, 7)).score, 1.0);
}

TEST(cuda_l1_score, takes_the_median_of_seven_buckets) {
  auto samples = with_score(2, 14);
  for (int i : {0, 1})
    samples[static_cast<std::size_t>(i)].reference_us = 2100;  // one bucket of seven at 2.1
  const auto s = cuda_l1_score(samples);
  EXPECT_EQ(s.score, 2.0);
  EXPECT_NEAR(s.means[0], 2.1, 1e-12);
  EXPECT_NEAR(s.variance, 0.01 / 7, 1e-9);
}

TEST(cuda_l1_score, refuses_noisy_measurements_and_too_few_samples) {
  EXPECT_FALSE(cuda_l1_score(with_score(2, 6)).score);
  EXPECT_TRUE(cuda_l1_score(with_score(2, 6)).means.empty());
  auto samples = with_score(2, 14);
  samples[0].reference_us = 2800;  // the bucket's mean is 2.4: variance 0.023
  EXPECT_FALSE(cuda_l1_score(samples).score);
  EXPECT_NEAR(cuda_l1_score(samples).variance, 0.16 / 7, 1e-9);
  reward_options wider;
  wider.bucket_variance = 0.03;
  EXPECT_TRUE(cuda_l1_score(samples, wider).score);
  samples[0].reference_us = std::nan("");
  EXPECT_FALSE(cuda_l1_score(samples, wider).score);
}

}  // namespace
}  // namespace cudal1
