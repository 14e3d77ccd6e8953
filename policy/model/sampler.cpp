#include "policy/model/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "config/base/split_mix.hpp"

namespace cudal1 {

namespace {

using torch::Tensor;
namespace idx = torch::indexing;

expected<void> choose(sampled_sequence& s, const legal_tokens& legal, const Tensor& logits,
                      const sampling_options& options, uint64_t& random) {
  const auto& allowed = legal.tokens;
  const double* of_all = logits.data_ptr<double>();
  std::vector<double> of_legal;
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i] < 0 || allowed[i] >= logits.numel())
      return fail(errc::invalid_argument, "the legal token {} is not in the vocabulary", allowed[i]);
    of_legal.push_back(of_all[allowed[i]] + (legal.prior.empty() ? 0 : legal.prior[i]));
  }
  const double most = *std::ranges::max_element(of_legal);
  double sum = 0;
  for (const double each : of_legal)
    sum += std::exp(each - most);
  // By descending probability, of which the first ones are drawn from.
  std::vector<std::size_t> order(allowed.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return of_legal[i]; });
  std::size_t at = order.front();
  if (options.temperature > 0) {
    std::vector<double> mass;
    double all = 0, kept = 0;
    for (const std::size_t i : order)
      mass.push_back(std::exp((of_legal[i] - most) / options.temperature)), all += mass.back();
    std::size_t count = 0;
    while (count < mass.size() && (count == 0 || kept < options.top_p * all))
      kept += mass[count++];
    random = split_mix(random + split_mix_step);
    double left = static_cast<double>(random >> 11) * 0x1p-53 * kept;
    std::size_t drawn = 0;
    while (drawn + 1 < count && left >= mass[drawn])
      left -= mass[drawn++];
    at = order[drawn];
  }
  s.sequence.tokens.push_back(allowed[at]);
  s.sequence.legal.push_back(allowed.size() > 1 ? legal : legal_tokens());
  if (allowed.size() > 1) s.log_probability.push_back(of_legal[at] - most - std::log(sum));
  return {};
}

// The next token of each sample that has not ended, and all of them as the model's next input; nothing if all ended.
expected<std::optional<network_input>> choose_next(const network& from, std::vector<sampled_sequence>& out,
                                                   std::vector<bool>& ended, const Tensor& last,
                                                   const token_grammar& legal, const sampling_options& options,
                                                   std::vector<uint64_t>& random) {
  const auto logits = from.logits_of(last).to(torch::kCPU, torch::kDouble).contiguous();
  network_input next(out.size(), 1, from.shape());
  bool any = false;
  for (std::size_t b = 0; b < out.size(); ++b) {
    if (ended[b]) continue;
    auto& s = out[b];
    const auto allowed = legal(b, s.sequence.tokens);
    if (allowed.tokens.empty() || static_cast<int64_t>(s.sequence.tokens.size()) >= from.shape().context) {
      ended[b] = true;
      s.complete = allowed.tokens.empty();
      continue;
    }
    const auto row = static_cast<int64_t>(b);
    CUDAL1_CHECK(choose(s, allowed, logits[row], options, random[b]));
    next.tokens[row][0] = static_cast<int64_t>(s.sequence.tokens.back());
    any = true;
  }
  if (!any) return std::nullopt;
  return next;
}

}  // namespace

expected<std::vector<sampled_sequence>> sample_from(const network& from, std::span<const token_sequence> prompts,
                                                    const token_grammar& legal, const sampling_options& options,
                                                    std::size_t each) {
  const torch::NoGradGuard no_gradients;
  std::vector<sampled_sequence> out(prompts.size() * each);
  if (out.empty()) return out;
  std::size_t longest = 0;
  for (std::size_t b = 0; b < out.size(); ++b) {
    auto& s = out[b].sequence;
    s = prompts[b / each];
    s.legal.assign(s.tokens.size(), {});
    if (b % each == 0) CUDAL1_CHECK(check_sequence(s, from.shape(), b / each));
    longest = std::max(longest, s.tokens.size());
  }
  // Left-padded, so that all samples go on at the same place.
  network_input read(prompts.size(), longest, from.shape());
  std::vector<int64_t> padding;
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    padding.push_back(static_cast<int64_t>(longest - prompts[b].tokens.size()));
    read.set(b, longest - prompts[b].tokens.size(), prompts[b]);
  }
  const auto many = static_cast<int64_t>(each);
  sampling_cache cache;
  cache.padding = as_tensor(padding, from.device()).unsqueeze(1);
  auto last = from.hidden(read, cache.padding, &cache.prompts).index({idx::Slice(), -1}).repeat_interleave(many, 0);
  from.make_room(cache, many, options.most_tokens);
  std::vector<uint64_t> random(out.size());
  for (std::size_t b = 0; b < out.size(); ++b)
    random[b] = split_mix(options.seed + split_mix_step * (b + 1));
  std::vector<bool> ended(out.size());
  for (int64_t step = 0; step < options.most_tokens; ++step) {
    CUDAL1_TRY(const auto next, choose_next(from, out, ended, last, legal, options, random));
    if (!next) break;
    if (step + 1 < options.most_tokens) last = from.hidden_of_next(*next, cache);
  }
  for (std::size_t b = 0; b < out.size(); ++b) {
    auto& s = out[b];
    if (!ended[b]) s.complete = legal(b, s.sequence.tokens).tokens.empty();
    if (!s.sequence.values.empty())
      s.sequence.values.resize(s.sequence.tokens.size(), std::numeric_limits<float>::quiet_NaN());
  }
  return out;
}

}  // namespace cudal1
