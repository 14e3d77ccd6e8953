#include "policy/model/training/packed_texts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "policy/model/training/recomputation.hpp"

namespace cudal1 {

using torch::Tensor;

namespace {

constexpr int64_t places_at_once = 256;
constexpr std::size_t bits = 32;

expected<void> check_text(const text_episode& e, std::size_t number, const model_shape& shape) {
  const auto count = static_cast<int64_t>(e.tokens.size());
  if (count > shape.context)
    return fail(errc::invalid_argument, "sequence {} has {} tokens, and the model's context {}", number, count,
                shape.context);
  for (const token t : e.tokens)
    if (t < 0 || t >= shape.vocabulary)
      return fail(errc::invalid_argument, "sequence {} has the token {}, which is not in the vocabulary of {}", number,
                  t, shape.vocabulary);
  int64_t last = 0;
  for (const int64_t place : e.written) {
    if (place <= last || place >= count)
      return fail(errc::invalid_argument,
                  "sequence {} of {} tokens says that token {} was written: places ascend from 1", number, count,
                  place);
    last = place;
  }
  if (!e.sampled.empty() && e.sampled.size() != e.written.size())
    return fail(errc::invalid_argument, "sequence {} has {} written tokens and {} probabilities of the sampler", number,
                e.written.size(), e.sampled.size());
  if (e.allowed.empty()) return {};
  const auto words = (static_cast<std::size_t>(shape.vocabulary) + bits - 1) / bits;
  if (e.allowed.size() != e.written.size())
    return fail(errc::invalid_argument, "sequence {} has {} written tokens, and says what was allowed for {}", number,
                e.written.size(), e.allowed.size());
  for (std::size_t i = 0; i < e.allowed.size(); ++i) {
    const auto chosen = static_cast<std::size_t>(e.tokens[static_cast<std::size_t>(e.written[i])]);
    const auto& allowed = e.allowed[i];
    if (!allowed.empty() && (allowed.size() != words || (allowed[chosen / bits] >> (chosen % bits) & 1u) == 0))
      return fail(errc::invalid_argument, "sequence {}: the written token {} is not among the allowed ones", number, i);
  }
  return {};
}

// What is added to logits, [tokens, vocabulary]; none where all is allowed.
Tensor mask_of(const std::vector<const std::vector<uint32_t>*>& allowed, int64_t vocabulary) {
  if (std::ranges::all_of(allowed, [](const auto* a) { return a == nullptr || a->empty(); })) return {};
  auto out = torch::zeros({static_cast<int64_t>(allowed.size()), vocabulary}, torch::kFloat);
  float* at = out.data_ptr<float>();
  for (const auto* a : allowed) {
    if (a != nullptr && !a->empty())
      for (int64_t t = 0; t < vocabulary; ++t)
        if (((*a)[static_cast<std::size_t>(t) / bits] >> (static_cast<std::size_t>(t) % bits) & 1u) == 0)
          at[t] = -std::numeric_limits<float>::infinity();
    at += vocabulary;
  }
  return out;
}

// [3, tokens]: the members of written_scores.
Tensor scores_of_states(const network& net, const Tensor& states, const Tensor& chosen, const Tensor& mask) {
  auto logits = net.logits_of(states);
  if (logits.scalar_type() != torch::kDouble) logits = logits.to(torch::kFloat);
  const auto of = [&](const Tensor& all) { return all.gather(1, chosen.unsqueeze(1)).squeeze(1); };
  const auto all = torch::log_softmax(logits, -1);
  const auto among = mask.defined() ? torch::log_softmax(logits + mask.to(logits.device()), -1) : all;
  const auto p = among.exp();
  const auto entropy = -(p * among.masked_fill(p == 0, 0)).sum(-1);
  return torch::stack({of(among), entropy, of(all).detach()});
}

}  // namespace

expected<void> check_texts(std::span<const text_episode> batch, const model_shape& shape) {
  bool learns = false;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    CUDAL1_CHECK(check_text(batch[i], i, shape));
    learns = learns || !batch[i].written.empty();
  }
  if (!learns) return fail(errc::invalid_argument, "there is nothing to learn in this batch: no token was written");
  return {};
}

std::vector<text_row> rows_of(std::span<const text_episode> batch, int64_t most_places) {
  std::vector<std::size_t> order(batch.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](std::size_t i) { return batch[i].written.empty(); });
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return batch[i].tokens.size(); });
  std::vector<text_row> rows;
  std::vector<int64_t> used;
  for (const std::size_t i : order) {
    const auto count = static_cast<int64_t>(batch[i].tokens.size());
    std::size_t to = 0;
    while (to < rows.size() && used[to] + count > most_places)
      ++to;
    if (to == rows.size()) {
      rows.emplace_back();
      used.push_back(0);
    }
    auto& row = rows[to];
    row.texts.push_back(i);
    row.lengths.push_back(count);
    for (const int64_t place : batch[i].written) {
      row.before.push_back(used[to] + place - 1);
      row.written.push_back(batch[i].tokens[static_cast<std::size_t>(place)]);
    }
    used[to] += count;
  }
  for (auto& row : rows) {
    std::vector<int64_t> tokens;
    for (const std::size_t i : row.texts)
      tokens.insert(tokens.end(), batch[i].tokens.begin(), batch[i].tokens.end());
    row.tokens = torch::tensor(tokens, torch::kLong);
  }
  return rows;
}

written_scores scores_of(const network& net, const text_row& row, std::span<const text_episode> batch,
                         network::layers_are mode) {
  std::vector<const std::vector<uint32_t>*> allowed;
  for (const std::size_t i : row.texts)
    for (std::size_t k = 0; k < batch[i].written.size(); ++k)
      allowed.push_back(batch[i].allowed.empty() ? nullptr : &batch[i].allowed[k]);
  const auto states =
      net.hidden_of_texts(row.tokens, row.lengths, mode).index_select(0, as_tensor(row.before, net.device()));
  const auto chosen = as_tensor(row.written, net.device());
  std::vector<Tensor> parts;
  for (int64_t first = 0; first < states.size(0); first += places_at_once) {
    const int64_t count = std::min(places_at_once, states.size(0) - first);
    const std::vector<const std::vector<uint32_t>*> of(allowed.begin() + first, allowed.begin() + first + count);
    const auto work = [&net, some = chosen.narrow(0, first, count), of](const Tensor& x) {
      return scores_of_states(net, x, some, mask_of(of, net.shape().vocabulary));
    };
    const auto part = states.narrow(0, first, count);
    parts.push_back(part.requires_grad() ? recomputed(work, part) : work(part));
  }
  const auto all = torch::cat(parts, 1);
  return {all[0], all[1], all[2].detach()};
}

}  // namespace cudal1
