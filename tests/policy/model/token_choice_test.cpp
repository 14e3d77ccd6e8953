// Choosing tokens on the host against a full sort.
#include "policy/model/token_choice.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

// Probabilities of all tokens by the definition.
std::vector<double> defined(const std::vector<float>& logits, const choice_rule& rule,
                            const std::vector<uint32_t>& allowed) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (allowed.empty() || (allowed[i / 32] >> (i % 32) & 1) != 0) order.push_back(i);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (rule.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(rule.top_k)));
  const auto weight = [&](std::size_t i) {
    return std::exp((static_cast<double>(logits[i]) - logits[order[0]]) / rule.temperature);
  };
  double mass = 0, before = 0;
  for (const auto i : order)
    mass += weight(i);
  std::size_t count = 0;
  while (count < order.size() && (count == 0 || (rule.top_p < 1 ? before < rule.top_p * mass : true)))
    before += weight(order[count++]);
  std::vector<double> out(logits.size());
  for (std::size_t i = 0; i < count; ++i)
    out[order[i]] = weight(order[i]) / before;
  return out;
}

TEST(choose_token, draws_as_a_full_sort_defines) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<float> logits(100);
    for (float& each : logits)
      each = std::round(normal(random) * 4) / 4;  // with ties
    choice_rule rule{.temperature = 0.7 + 0.3 * (trial % 3),
                     .top_p = trial % 2 == 0 ? 1.0 : 0.8,
                     .top_k = trial % 5 == 0 ? 0 : 1 + trial,
                     .random = 0};
    std::vector<uint32_t> allowed;
    if (trial % 4 == 1) allowed = {0x0f0f3355, 0, 0xffffffff, 0xf};
    const auto wanted = defined(logits, rule, allowed);
    // The draw goes through the kept tokens in their order: token i is drawn from its part of [0, 1).
    double before = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (wanted[i] == 0) continue;
      rule.random = static_cast<uint64_t>((before + wanted[i] / 2) * 0x1p53) << 11;
      EXPECT_EQ(choose_token(logits, rule, allowed).chosen, static_cast<token>(i)) << trial;
      before += wanted[i];
    }
    rule.random = ~uint64_t{0};
    EXPECT_GT(wanted[static_cast<std::size_t>(choose_token(logits, rule, allowed).chosen)], 0);
  }
}

TEST(choose_token, gives_log_probabilities_among_all) {
  const std::vector<float> logits = {1, 2, 3, 2.5f};
  double sum = 0;
  for (const float each : logits)
    sum += std::exp(static_cast<double>(each));
  const std::vector<uint32_t> allowed = {0b0011};
  const auto chosen = choose_token(logits, {.temperature = 0}, allowed);
  EXPECT_EQ(chosen.chosen, 1);
  EXPECT_NEAR(chosen.log_probability, 2 - std::log(sum), 1e-12);
}

TEST(random_of, differs_by_seed_answer_and_place) {
  EXPECT_EQ(random_of(1, 2, 3), random_of(1, 2, 3));
  EXPECT_NE(random_of(1, 2, 3), random_of(1, 2, 4));
  EXPECT_NE(random_of(1, 2, 3), random_of(1, 3, 3));
  EXPECT_NE(random_of(1, 2, 3), random_of(2, 2, 3));
}

}  // namespace
}  // namespace cudal1
