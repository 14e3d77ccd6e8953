#include "policy/model/generator.hpp"

#include <algorithm>
#include <cmath>

#include "config/base/split_mix.hpp"
#include "config/base/stopwatch.hpp"

namespace cudal1 {

namespace {

using torch::Tensor;
using prompts_of_text = std::span<const std::vector<token>>;

constexpr int64_t rows_at_once = 512;  // of prompts' own parts: bounds the memory of their attention

expected<void> check_text(std::span<const token> tokens, const model_shape& shape) {
  if (tokens.empty()) return fail(errc::invalid_argument, "the text for the model has no token");
  if (static_cast<int64_t>(tokens.size()) > shape.context)
    return fail(errc::invalid_argument, "the text has {} tokens, and the model's context {}", tokens.size(),
                shape.context);
  for (const token t : tokens)
    if (t < 0 || t >= shape.vocabulary)
      return fail(errc::invalid_argument, "the token {} is not in the model's vocabulary of {}", t, shape.vocabulary);
  return {};
}

expected<void> check_options(const generation_options& o) {
  if (!(o.temperature >= 0) || !std::isfinite(o.temperature) || !(o.top_p > 0) || o.top_p > 1 || o.top_k < 0 ||
      o.most_tokens < 1)
    return fail(errc::invalid_argument,
                "temperature {} (0 or more), top_p {} (above 0, up to 1), top_k {} (0 or more) or most_tokens {} (1 or "
                "more) is out of range",
                o.temperature, o.top_p, o.top_k, o.most_tokens);
  return {};
}

// Tokens at the beginning of all prompts, without the last one of any.
std::size_t common_beginning(prompts_of_text prompts) {
  std::size_t common = prompts.front().size() - 1;
  for (const auto& each : prompts) {
    const auto [a, b] = std::ranges::mismatch(prompts.front(), each);
    common = std::min({common, static_cast<std::size_t>(a - prompts.front().begin()), each.size() - 1});
  }
  return common;
}

Tensor as_tokens(std::span<const token> tokens) {
  return torch::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()), torch::kLong);
}

int64_t bytes_of(const text_cache& cache) {
  int64_t bytes = 0;
  for (const auto* part : {&cache.shared, &cache.own})
    for (const auto& layer : *part)
      bytes += static_cast<int64_t>(layer.keys.nbytes() + layer.values.nbytes());
  return bytes;
}

// The answers that go on, side by side.
class generating {
 public:
  generating(const network& from, const generation_options& options, const token_listener& listener)
      : from_(from), options_(options), listener_(listener) {}

  generation run(prompts_of_text prompts, std::size_t each) {
    const stopwatch watch;
    read(prompts, each);
    choose();
    out_.report.prompt_seconds = watch.ms() / 1000;
    while (!active_.empty()) {
      last_ = from_.read_own(next_.unsqueeze(1), torch::ones_like(next_), cache_).squeeze(1);
      choose();
    }
    out_.report.answer_seconds = watch.ms() / 1000 - out_.report.prompt_seconds;
    for (const auto& answer : out_.answers)
      out_.report.answer_tokens += static_cast<int64_t>(answer.tokens.size());
    return std::move(out_);
  }

 private:
  void read(prompts_of_text prompts, std::size_t each) {
    const std::size_t shared = common_beginning(prompts);
    std::size_t longest = 0;
    for (const auto& prompt : prompts) {
      longest = std::max(longest, prompt.size() - shared);
      out_.report.prompt_tokens += static_cast<int64_t>(prompt.size() - shared);
      for (std::size_t i = 0; i < each; ++i) {
        active_.push_back(out_.answers.size());
        out_.answers.emplace_back();
        random_.push_back(split_mix(options_.seed + split_mix_step * out_.answers.size()));
        left_.push_back(
            std::min(options_.most_tokens, from_.shape().context - static_cast<int64_t>(prompt.size()) + 1));
      }
    }
    out_.report.shared_tokens = static_cast<int64_t>(shared);
    out_.report.prompt_tokens += static_cast<int64_t>(shared);
    if (shared > 0) from_.read_shared(as_tokens(std::span(prompts.front()).first(shared)), cache_);
    const int64_t most = *std::ranges::max_element(left_);
    from_.make_room(cache_, static_cast<int64_t>(prompts.size()), static_cast<int64_t>(longest) + most);
    read_own_parts(prompts, shared, longest);
    if (each > 1) {
      const auto repeated = torch::arange(0, static_cast<int64_t>(prompts.size()), torch::kLong)
                                .repeat_interleave(static_cast<int64_t>(each))
                                .to(from_.device());
      cache_.keep(repeated);
      last_ = last_.index_select(0, repeated);
    }
    out_.report.cache_bytes = bytes_of(cache_);
  }

  // What follows the common beginning, some columns at a time. Sets last_: the state of each prompt's last token.
  void read_own_parts(prompts_of_text prompts, std::size_t shared, std::size_t longest) {
    const auto count = static_cast<int64_t>(prompts.size()), columns = static_cast<int64_t>(longest);
    auto tokens = torch::zeros({count, columns}, torch::kLong);
    std::vector<int64_t> sizes;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      sizes.push_back(static_cast<int64_t>(prompts[i].size() - shared));
      std::ranges::copy(std::span(prompts[i]).subspan(shared), tokens[static_cast<int64_t>(i)].data_ptr<int64_t>());
    }
    const auto own = torch::tensor(sizes, torch::kLong).to(from_.device());
    last_ =
        torch::zeros({count, from_.shape().width}, torch::TensorOptions().dtype(from_.type()).device(from_.device()));
    const int64_t step = std::max<int64_t>(1, rows_at_once / count);
    for (int64_t at = 0; at < columns; at += step) {
      const int64_t taken = std::min(step, columns - at);
      const auto states = from_.read_own(tokens.narrow(1, at, taken), (own - at).clamp(0, taken), cache_);
      const auto place = own - 1 - at;
      const auto here = place.ge(0).logical_and(place.lt(taken)).unsqueeze(1);
      const auto ends =
          states.gather(1, place.clamp(0, taken - 1).view({count, 1, 1}).expand({count, 1, from_.shape().width}));
      last_ = torch::where(here, ends.squeeze(1), last_);
    }
  }

  // The next token of each active answer, from its logits: [answers].
  Tensor chosen_of(const Tensor& logits) {
    if (options_.temperature == 0) return logits.argmax(-1);
    const int64_t all = logits.size(1);
    const auto [sorted, order] = options_.top_k > 0 && options_.top_k < all
                                     ? logits.topk(options_.top_k, -1)
                                     : logits.sort(/*stable=*/true, /*dim=*/-1, /*descending=*/true);
    auto mass = torch::softmax(sorted / options_.temperature, -1);
    if (options_.top_p < 1) mass = mass * (mass.cumsum(-1) - mass).lt(options_.top_p).to(mass.scalar_type());
    std::vector<double> draws;
    for (const std::size_t answer : active_) {
      auto& random = random_[answer];
      random = split_mix(random + split_mix_step);
      draws.push_back(static_cast<double>(random >> 11) * 0x1p-53);
    }
    const auto sums = mass.cumsum(-1, torch::kDouble);
    const auto drawn =
        torch::tensor(draws, torch::kDouble).to(sums.device()).unsqueeze(1) * sums.narrow(1, sums.size(1) - 1, 1);
    // A place without mass is never drawn: the first whose sum is above the draw has some.
    const auto place = sums.le(drawn).sum(-1, /*keepdim=*/true).clamp_max(sums.size(1) - 1);
    return order.gather(1, place).squeeze(1);
  }

  // Chooses a token for each active answer; those that end are no longer active.
  void choose() {
    const auto logits = from_.logits_of(last_).to(torch::kFloat);
    next_ = chosen_of(logits);
    const auto probability = logits.gather(1, next_.unsqueeze(1)).squeeze(1) - logits.logsumexp(-1);
    const auto tokens = next_.to(torch::kCPU).contiguous();
    const auto logs = probability.to(torch::kCPU, torch::kDouble).contiguous();
    std::vector<int64_t> going_on;
    std::vector<std::size_t> active;
    for (std::size_t i = 0; i < active_.size(); ++i) {
      const auto chosen = static_cast<token>(tokens.data_ptr<int64_t>()[i]);
      auto& answer = out_.answers[active_[i]];
      answer.tokens.push_back(chosen);
      answer.log_probability.push_back(logs.data_ptr<double>()[i]);
      const bool goes_on = !listener_ || listener_(active_[i], chosen);
      const bool is_end = std::ranges::find(options_.end, chosen) != options_.end.end();
      answer.end = is_end ? generation_end::end_token : goes_on ? generation_end::length : generation_end::stopped;
      if (is_end || !goes_on || --left_[active_[i]] <= 0) continue;
      going_on.push_back(static_cast<int64_t>(i));
      active.push_back(active_[i]);
    }
    if (active.size() < active_.size() && !active.empty()) {
      const auto kept = torch::tensor(going_on, torch::kLong).to(from_.device());
      cache_.keep(kept);
      next_ = next_.index_select(0, kept);
    }
    active_ = std::move(active);
  }

  const network& from_;
  const generation_options& options_;
  const token_listener& listener_;
  generation out_;
  text_cache cache_;
  std::vector<std::size_t> active_;  // numbers of answers, in the order of the cache
  std::vector<uint64_t> random_;     // by answer
  std::vector<int64_t> left_;        // tokens that each answer may still have
  Tensor last_, next_;               // of the active answers: states of the last tokens, chosen tokens
};

}  // namespace

expected<generation> generate_from(const network& from, prompts_of_text prompts, const generation_options& options,
                                   std::size_t each, const token_listener& listener) {
  const torch::NoGradGuard no_gradients;
  CUDAL1_CHECK(check_options(options));
  for (const auto& prompt : prompts)
    CUDAL1_CHECK(check_text(prompt, from.shape()));
  if (from.shape().value_periods > 0)
    return fail(errc::invalid_argument, "a model whose tokens have values does not generate text");
  if (prompts.empty() || each == 0) return generation();
  return generating(from, options, listener).run(prompts, each);
}

expected<Tensor> logits_of_text(const network& from, std::span<const token> tokens) {
  const torch::NoGradGuard no_gradients;
  CUDAL1_CHECK(check_text(tokens, from.shape()));
  text_cache unused;
  return from.logits_of(from.read_shared(as_tokens(tokens), unused)).squeeze(0);
}

}  // namespace cudal1
