#include "policy/model/constraint/token_masks.hpp"

#include <algorithm>

namespace cudal1 {

expected<token_trie> token_trie::make(const tokenizer& words) {
  token_trie out;
  std::vector<bool> alone(256);
  out.bytes_.resize(words.size());
  for (std::size_t t = 0; t < words.size(); ++t) {
    const auto number = static_cast<token>(t);
    if (words.is_special(number)) continue;
    const std::string& bytes = words.bytes_of(number);
    if (bytes.empty()) continue;
    out.bytes_[t] = bytes;
    if (bytes.size() == 1) alone[static_cast<unsigned char>(bytes.front())] = true;
    int32_t at = 0;
    for (const unsigned char byte : bytes) {
      auto& children = out.nodes_[static_cast<std::size_t>(at)].children;
      const auto found = std::ranges::find(children, byte, &std::pair<unsigned char, int32_t>::first);
      if (found != children.end()) {
        at = found->second;
        continue;
      }
      const auto made = static_cast<int32_t>(out.nodes_.size());
      children.emplace_back(byte, made);
      out.nodes_.emplace_back();
      at = made;
    }
    out.nodes_[static_cast<std::size_t>(at)].tokens.push_back(number);
  }
  for (int byte = ' '; byte < 0x7f; ++byte)
    if (!alone[static_cast<std::size_t>(byte)] || !alone['\n'])
      return fail(errc::unsupported,
                  "the model's tokenizer has no token for each printable character alone, which constrained answers "
                  "need; set llm.constrained=false");
  return out;
}

namespace {

// Tokens that the mask has no bit for are left out.
void allow(token t, std::span<uint32_t> allowed) {
  constexpr std::size_t bits = 32;
  const auto number = static_cast<std::size_t>(t);
  if (number / bits < allowed.size()) allowed[number / bits] |= 1U << number % bits;
}

}  // namespace

token_masks::distances token_masks::walk(byte_automaton::state s) const {
  distances out(words_->vocabulary(), none);
  struct place {
    int32_t node;
    byte_automaton::state at;
  };
  std::vector<place> open{{0, s}};
  while (!open.empty()) {
    const place here = open.back();
    open.pop_back();
    for (const auto& [byte, child] : words_->at(here.node).children) {
      const auto next = shape_->next(here.at, byte);
      if (next == byte_automaton::none) continue;
      for (const token t : words_->at(child).tokens)
        out[static_cast<std::size_t>(t)] = static_cast<uint16_t>(std::min<int32_t>(shape_->distance(next), far_away));
      open.push_back({child, next});
    }
  }
  return out;
}

void token_masks::fill(byte_automaton::state s, const room& of, std::span<const token> ends,
                       std::span<uint32_t> allowed) const {
  // After this token and the last one.
  int64_t farthest = of.left - 2;
  if (of.must_leave) farthest = std::min<int64_t>(farthest, shape_->distance(s) - 1);
  {
    const std::lock_guard lock(mutex_);
    if (known_.size() * allowed.size_bytes() > most_known_bytes) known_.clear();
    auto& known = known_[s];
    if (known.allowed.empty()) {
      std::ranges::fill(allowed, 0U);
      const auto all = walk(s);
      for (std::size_t t = 0; t < all.size(); ++t)
        if (all[t] != none) {
          allow(static_cast<token>(t), allowed);
          known.farthest = std::max<int64_t>(known.farthest, all[t]);
        }
      known.allowed.assign(allowed.begin(), allowed.end());
    }
    if (farthest >= known.farthest) {
      std::ranges::copy(known.allowed, allowed.begin());
    } else {
      if (distances_.size() * words_->vocabulary() * sizeof(uint16_t) > most_distance_bytes) distances_.clear();
      auto& all = distances_[s];
      if (all.empty()) all = walk(s);
      std::ranges::fill(allowed, 0U);
      for (std::size_t t = 0; t < all.size(); ++t)
        if (all[t] <= farthest && all[t] != none) allow(static_cast<token>(t), allowed);
    }
  }
  if (shape_->is_end(s))
    for (const token t : ends)
      if (t >= 0) allow(t, allowed);
}

namespace {

// Where an answer is.
class position {
 public:
  position(std::shared_ptr<const token_masks> masks, int64_t most_tokens, std::vector<token> ends)
      : masks_(std::move(masks)), most_tokens_(most_tokens), ends_(std::move(ends)), spent_(masks_->shape().parts()) {}

  bool fill(std::span<const token> so_far, std::span<uint32_t> allowed) {
    const auto& shape = masks_->shape();
    for (; read_ < so_far.size() && state_ != byte_automaton::none; ++read_) {
      ++spent_[static_cast<std::size_t>(shape.part(state_))];
      state_ = shape.after(state_, masks_->words().bytes_of(so_far[read_]));
    }
    if (state_ == byte_automaton::none) return false;  // an end: there is no next token
    const auto spent = static_cast<double>(spent_[static_cast<std::size_t>(shape.part(state_))]);
    const bool must_leave = spent >= shape.share(state_) * static_cast<double>(most_tokens_);
    masks_->fill(state_, {most_tokens_ - static_cast<int64_t>(so_far.size()), must_leave}, ends_, allowed);
    return true;
  }

 private:
  std::shared_ptr<const token_masks> masks_;
  int64_t most_tokens_;
  std::vector<token> ends_;
  byte_automaton::state state_ = 0;
  std::size_t read_ = 0;        // tokens
  std::vector<int64_t> spent_;  // tokens, by part of the pattern
};

}  // namespace

expected<token_constraint> constraint_of(std::shared_ptr<const token_masks> masks, int64_t most_tokens,
                                         std::vector<token> ends) {
  const auto& shape = masks->shape();
  if (const auto shortest = shape.distance(shape.begin()); most_tokens <= shortest)
    return fail(errc::invalid_argument,
                "an answer may have {} tokens, but the shortest one that can be read has {} bytes: raise "
                "llm.max_answer_tokens above this, or set llm.constrained=false",
                most_tokens, shortest);
  auto where = std::make_shared<position>(std::move(masks), most_tokens, std::move(ends));
  return token_constraint([where](std::size_t, std::span<const token> so_far, std::span<uint32_t> allowed) {
    return where->fill(so_far, allowed);
  });
}

}  // namespace cudal1
