#include "policy/model/sequence_batch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cudal1 {

using torch::Tensor;

expected<void> check_sequence(const token_sequence& s, const model_shape& shape, std::size_t number) {
  const auto bad = [&](std::size_t at, const char* why) {
    return fail(errc::invalid_argument, "sequence {}, token {} ({}) {}", number, at, s.tokens[at], why);
  };
  if (s.tokens.empty() || s.legal.size() != s.tokens.size() || !s.legal.front().tokens.empty())
    return fail(errc::invalid_argument, "sequence {} should begin with a given token, and say what was legal for each",
                number);
  if (static_cast<int64_t>(s.tokens.size()) > shape.context)
    return fail(errc::invalid_argument, "sequence {} has {} tokens, and the model's context {}", number,
                s.tokens.size(), shape.context);
  if (!s.values.empty() && (s.values.size() != s.tokens.size() || shape.value_periods == 0))
    return fail(errc::invalid_argument, "sequence {} has {} values for {} tokens, and the model {} for each", number,
                s.values.size(), s.tokens.size(), shape.value_periods == 0 ? "none" : "one");
  for (std::size_t i = 0; i < s.tokens.size(); ++i) {
    if (s.tokens[i] < 0 || s.tokens[i] >= shape.vocabulary) return bad(i, "is not in the vocabulary");
    const auto& [legal, prior] = s.legal[i];
    if (legal.empty()) continue;
    if (legal.front() < 0 || legal.back() >= shape.vocabulary || !std::ranges::is_sorted(legal))
      return bad(i, "has legal tokens that do not ascend or are not in the vocabulary");
    if (!std::ranges::binary_search(legal, s.tokens[i])) return bad(i, "is not among its legal ones");
    if (!prior.empty() &&
        (prior.size() != legal.size() || !std::ranges::all_of(prior, [](float p) { return std::isfinite(p); })))
      return bad(i, "should have a finite prior for each legal token, or none at all");
  }
  return {};
}

expected<choices> choices_of(sequences batch, const model_shape& shape) {
  choices out;
  std::vector<const legal_tokens*> legal;
  for (std::size_t b = 0; b < batch.size(); ++b) {
    const token_sequence& s = *batch[b];
    CUDAL1_CHECK(check_sequence(s, shape, b));
    const std::size_t before = legal.size();
    for (std::size_t i = 1; i < s.tokens.size(); ++i) {
      if (s.legal[i].tokens.empty()) continue;
      out.row.push_back(static_cast<int64_t>(b));
      out.before.push_back(static_cast<int64_t>(i) - 1);
      out.chosen.push_back(s.tokens[i]);
      legal.push_back(&s.legal[i]);
    }
    out.of_sequence.push_back(legal.size() - before);
  }
  out.prior = torch::full({static_cast<int64_t>(legal.size()), shape.vocabulary},
                          -std::numeric_limits<double>::infinity(), torch::kFloat);
  for (std::size_t n = 0; n < legal.size(); ++n) {
    float* row = out.prior.data_ptr<float>() + static_cast<int64_t>(n) * shape.vocabulary;
    for (std::size_t i = 0; i < legal[n]->tokens.size(); ++i)
      row[legal[n]->tokens[i]] = legal[n]->prior.empty() ? 0 : legal[n]->prior[i];
  }
  return out;
}

network_input::network_input(std::size_t samples, std::size_t places, const model_shape& shape)
    : tokens(torch::zeros({static_cast<int64_t>(samples), static_cast<int64_t>(places)}, torch::kLong)) {
  if (shape.value_periods > 0)
    values = torch::full(tokens.sizes(), std::numeric_limits<double>::quiet_NaN(), torch::kFloat);
}

void network_input::set(std::size_t sample, std::size_t first, const token_sequence& s) {
  const auto row = static_cast<int64_t>(sample);
  std::ranges::copy(s.tokens, tokens[row].data_ptr<int64_t>() + first);
  if (!s.values.empty()) std::ranges::copy(s.values, values[row].data_ptr<float>() + first);
}

network_input padded(sequences batch, const model_shape& shape) {
  std::size_t longest = 1;
  for (const token_sequence* each : batch)
    longest = std::max(longest, each->tokens.size());
  network_input out(batch.size(), longest, shape);
  for (std::size_t b = 0; b < batch.size(); ++b)
    out.set(b, 0, *batch[b]);
  return out;
}

Tensor as_tensor(const std::vector<int64_t>& values, torch::Device device) {
  return torch::tensor(values, torch::kLong).to(device);
}

}  // namespace cudal1
