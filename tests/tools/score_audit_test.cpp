#include "tools/cli/report/score_audit.hpp"

#include <gtest/gtest.h>

#include "sandbox/verify/profiler.hpp"
#include "tools/cli/report/verdict_text.hpp"

namespace cudal1::cli {
namespace {

// Forks of 8 pairs; the ratios of fork i are about ratios[i].
verdict measured(const std::vector<double>& ratios) {
  verdict v;
  v.result = outcome::correct;
  for (std::size_t fork = 0; fork < ratios.size(); ++fork)
    for (int i = 0; i < 8; ++i)
      v.samples.push_back({static_cast<int>(fork), i % 2 == 0, 100 * ratios[fork] + i, 100 + 0.25 * i});
  return v;
}

double score_of(const verdict& v, std::size_t first, std::size_t count) {
  return estimate_timing(std::span(v.samples).subspan(first, count)).score;
}

TEST(verdict_text, a_check_that_does_not_apply_is_not_said_to_have_passed) {
  const terminal plain;
  EXPECT_EQ(gate_mark({"3 error", true, "largest relative error 0"}, plain), "pass");
  EXPECT_EQ(gate_mark({"audit: clocks", true, "skipped: the device has no clock of its own"}, plain), "skip");
  EXPECT_EQ(gate_mark({"2 close", false, "y: 3 of 4 elements differ"}, plain), "FAIL");
}

TEST(score_audit, of_all_samples) {
  auto v = measured({1.5, 1.6, 1.4});
  v.score = score_of(v, 0, 24);
  const auto a = audit_score(v, "e1");
  EXPECT_EQ(a.finding, audit_finding::recomputed);
  EXPECT_EQ(a.recomputed, v.score);
  EXPECT_EQ(a.pairs, 24);
  EXPECT_EQ(a.experiment, "e1");
}

TEST(score_audit, of_a_confirmation_and_of_a_screening_finds_their_forks) {
  auto v = measured({2.5, 2.4, 1.6, 1.4, 1.5});
  v.score = score_of(v, 16, 24);
  const auto confirmed = audit_score(v, "e1");
  EXPECT_EQ(confirmed.finding, audit_finding::recomputed);
  EXPECT_EQ(confirmed.first_fork, 2);
  EXPECT_EQ(confirmed.last_fork, 4);
  EXPECT_EQ(confirmed.pairs, 24);
  EXPECT_EQ(confirmed.pairs_measured, 40);
  v.score = score_of(v, 0, 16);
  const auto screened = audit_score(v, "e1");
  EXPECT_EQ(screened.finding, audit_finding::recomputed);
  EXPECT_EQ(screened.last_fork, 1);
}

TEST(score_audit, finds_a_score_or_samples_that_were_changed) {
  auto v = measured({1.5, 1.6, 1.4});
  v.score = score_of(v, 0, 24) * 1.001;
  EXPECT_EQ(audit_score(v, "e1").finding, audit_finding::differs);
  v = measured({1.5, 1.6, 1.4});
  v.score = score_of(v, 0, 24);
  for (auto& s : v.samples)
    s.variant_us *= 0.9;
  EXPECT_EQ(audit_score(v, "e1").finding, audit_finding::differs);
  v.samples[3].variant_us = 0;
  EXPECT_EQ(audit_score(v, "e1").finding, audit_finding::differs) << "no ratio of it";
}

TEST(score_audit, of_what_has_no_score_or_no_samples) {
  verdict v;
  v.result = outcome::wrong_answer;
  EXPECT_EQ(audit_score(v, "e1").finding, audit_finding::no_samples);
  v = measured({1.5});
  v.samples.clear();
  v.score = 1.5;
  EXPECT_EQ(audit_score(v, "e1").finding, audit_finding::no_samples);
}

TEST(score_audit, has_the_score_by_the_rule_of_the_paper) {
  auto v = measured({1.5, 1.5, 1.5});
  v.score = score_of(v, 0, 24);
  const auto quiet = audit_score(v, "e1").cuda_l1;
  ASSERT_TRUE(quiet);
  EXPECT_NEAR(*quiet, 1.5, 0.06);
  EXPECT_FALSE(audit_score(measured({1.5}), "e1").cuda_l1) << "no score, no claim";
  v = measured({1.5, 2.5, 1.4});
  v.score = score_of(v, 0, 24);
  EXPECT_FALSE(audit_score(v, "e1").cuda_l1) << "too noisy";
}

}  // namespace
}  // namespace cudal1::cli
