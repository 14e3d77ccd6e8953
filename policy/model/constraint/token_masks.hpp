// Which tokens may come next in an answer that an automaton of bytes constrains. The vocabulary is a trie of bytes;
// trie and automaton are walked together, once for each state that answers reach.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/constraint/byte_automaton.hpp"
#include "policy/model/text_generation.hpp"
#include "policy/model/tokenizer/tokenizer.hpp"

namespace cudal1 {

// The tokens of a vocabulary by their bytes. Immutable: thread-safe.
class token_trie {
 public:
  // errc::unsupported where a printable character or the line break has no token of its own: then what is left of an
  // answer cannot be written byte by byte.
  static expected<token_trie> make(const tokenizer& words);

  struct node {
    std::vector<std::pair<unsigned char, int32_t>> children;
    std::vector<token> tokens;  // whose bytes end here
  };
  const node& at(int32_t i) const { return nodes_[static_cast<std::size_t>(i)]; }
  std::size_t vocabulary() const { return bytes_.size(); }
  const std::string& bytes_of(token t) const { return bytes_[static_cast<std::size_t>(t)]; }

 private:
  std::vector<node> nodes_{1};
  std::vector<std::string> bytes_;  // "" of special tokens
};

// For one automaton. Thread-safe.
class token_masks {
 public:
  // What an answer has spent and may still spend, in tokens.
  struct room {
    int64_t left = 0;         // with the one that ends the answer
    bool must_leave = false;  // the part of the pattern that it is in
  };

  token_masks(std::shared_ptr<const token_trie> words, std::shared_ptr<const byte_automaton> shape)
      : words_(std::move(words)), shape_(std::move(shape)) {}
  const byte_automaton& shape() const { return *shape_; }
  const token_trie& words() const { return *words_; }
  // Sets the bits (token_constraint) of the tokens that may come next so that the answer can still end within what is
  // left, and clears all others; those of `ends` are allowed where the answer may end. Some token is allowed if left is
  // more than shape().distance(s).
  void fill(byte_automaton::state s, const room& of, std::span<const token> ends, std::span<uint32_t> allowed) const;

 private:
  // What each token that may come after a state leaves to the end; none: it may not. At most far_away.
  using distances = std::vector<uint16_t>;
  static constexpr uint16_t far_away = 0xfffe, none = 0xffff;
  distances walk(byte_automaton::state s) const;

  std::shared_ptr<const token_trie> words_;
  std::shared_ptr<const byte_automaton> shape_;
  // All tokens that may come after a state, which are allowed where as much is left as any of them needs.
  struct mask {
    std::vector<uint32_t> allowed;
    int64_t farthest = 0;
  };
  static constexpr std::size_t most_known_bytes = 256 << 20, most_distance_bytes = 128 << 20;
  mutable std::mutex mutex_;
  mutable std::unordered_map<byte_automaton::state, mask> known_;
  // Of states from which some answer had to leave: the walk takes milliseconds with a large vocabulary.
  mutable std::unordered_map<byte_automaton::state, distances> distances_;
};

// The constraint of one answer. errc::invalid_argument if the shortest one does not fit most_tokens.
expected<token_constraint> constraint_of(std::shared_ptr<const token_masks> masks, int64_t most_tokens,
                                         std::vector<token> ends);

}  // namespace cudal1
