#include "policy/model/token_choice.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "config/base/split_mix.hpp"

namespace cudal1 {

namespace {

struct candidate {
  float logit;
  token number;
};

bool comes_before(const candidate& a, const candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.number < b.number;
}

}  // namespace

namespace {

uint64_t step_of_answer(uint64_t answer) {
  return split_mix_step * (answer + 1);
}

}  // namespace

uint64_t seed_for_answer(uint64_t seed, uint64_t answer) {
  return seed - step_of_answer(answer);
}

uint64_t random_of(uint64_t seed, uint64_t answer, int64_t place) {
  const uint64_t of_answer = split_mix(seed + step_of_answer(answer));
  return split_mix(of_answer + split_mix_step * (static_cast<uint64_t>(place) + 1));
}

chosen_token choose_token(std::span<const float> logits, const choice_rule& rule, std::span<const uint32_t> allowed) {
  const double most_of_all = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float each : logits)
    sum += std::exp(each - most_of_all);
  const auto log_probability = [&](token t) {
    return logits[static_cast<std::size_t>(t)] - most_of_all - std::log(sum);
  };
  std::vector<candidate> kept;
  kept.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (allowed.empty() || (allowed[i / 32] >> (i % 32) & 1) != 0) kept.push_back({logits[i], static_cast<token>(i)});
  const candidate best = *std::ranges::min_element(kept, comes_before);
  if (rule.temperature == 0) return {best.number, log_probability(best.number)};
  const auto weight = [&](const candidate& c) {
    return std::exp((static_cast<double>(c.logit) - best.logit) / rule.temperature);
  };
  if (rule.top_k > 0 && rule.top_k < static_cast<int64_t>(kept.size())) {
    std::ranges::nth_element(kept, kept.begin() + rule.top_k, comes_before);
    kept.resize(static_cast<std::size_t>(rule.top_k));
  }
  double mass = 0;
  for (const auto& c : kept)
    mass += weight(c);
  if (rule.top_p < 1) {
    // Less than a part 1 - top_p is left out with those below this weight, so they are not among the first.
    const double least = (1 - rule.top_p) * mass / static_cast<double>(kept.size());
    std::erase_if(kept, [&](const candidate& c) { return weight(c) < least; });
    std::ranges::sort(kept, comes_before);
    double before = 0;
    std::size_t count = 0;
    while (count < kept.size() && before < rule.top_p * mass)
      before += weight(kept[count++]);
    kept.resize(count);
    mass = before;
  }
  std::ranges::sort(kept, {}, &candidate::number);
  double left = static_cast<double>(rule.random >> 11) * 0x1p-53 * mass;
  std::size_t at = 0;
  while (at + 1 < kept.size() && left >= weight(kept[at]))
    left -= weight(kept[at++]);
  return {kept[at].number, log_probability(kept[at].number)};
}

}  // namespace cudal1
