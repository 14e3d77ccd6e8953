// A deterministic automaton that reads texts of a byte_pattern, byte by byte. Every state that is reached can still
// come to an end.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/constraint/byte_pattern.hpp"

namespace cudal1 {

// Immutable: thread-safe.
class byte_automaton {
 public:
  using state = int32_t;
  static constexpr state none = -1;  // no text of the pattern begins so

  // errc::unsupported beyond `most_states`; errc::invalid_argument if the pattern has no text at all.
  static expected<byte_automaton> make(const byte_pattern& p, std::size_t most_states = 200000);

  state begin() const { return 0; }
  state next(state s, unsigned char byte) const {
    return next_[static_cast<std::size_t>(s) * classes_ + class_of_[byte]];
  }
  state after(state s, std::string_view text) const;  // none if any byte leads nowhere
  // A text may end here.
  bool is_end(state s) const { return distance(s) == 0; }
  // Bytes of the shortest way from here to an end.
  int32_t distance(state s) const { return distance_[static_cast<std::size_t>(s)]; }
  int32_t longest_distance() const { return longest_distance_; }
  // The share of an answer's tokens that may be spent before this state's part of the pattern is left
  // (byte_pattern::within); 1: no limit. `part` tells such parts from each other; 0: none.
  double share(state s) const { return shares_[static_cast<std::size_t>(part(s))]; }
  int32_t part(state s) const { return part_[static_cast<std::size_t>(s)]; }
  std::size_t states() const { return distance_.size(); }
  std::size_t parts() const { return shares_.size(); }
  bool accepts(std::string_view text) const;

 private:
  friend class automaton_maker;
  byte_automaton() = default;
  std::size_t classes_ = 0;
  std::array<uint16_t, 256> class_of_{};  // bytes that no state tells apart
  std::vector<state> next_;               // [states, classes]
  std::vector<int32_t> distance_, part_;  // by state
  std::vector<double> shares_{1.0};       // by part
  int32_t longest_distance_ = 0;
};

}  // namespace cudal1
