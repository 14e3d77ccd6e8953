// Finds, among thousands of hack cases, the one whose source is most like a new variant's, in microseconds: signatures
// that agree in both hashes of one of 64 bands are compared (locality-sensitive hashing), which two sources of a
// similarity of 0.5 do with probability 1 - 1e-8.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "sandbox/verify/hack_class.hpp"
#include "sandbox/verify/source_signature.hpp"

namespace cudal1 {

struct similar_hack {
  std::string id;
  hack_class kind = hack_class::writes_to_an_input;
  double similarity = 0;
};

// Not thread-safe.
class hack_index {
 public:
  // Beyond these the oldest case is forgotten here; the store keeps all.
  static constexpr std::size_t most_cases = 4096;
  // A search compares no more cases than these: where more are like the variant in a band, they are like each other.
  static constexpr std::size_t most_compared = 256;

  // A case without a signature, whose source has no tokens, is like none, and is left out.
  void add(const std::string& id, hack_class kind, const source_signature& signature);
  // The most similar ones with at least this similarity, most similar first.
  std::vector<similar_hack> similar_to(const source_signature& s, double at_least, std::size_t limit) const;
  std::size_t size() const { return cases_.size(); }

 private:
  struct known_case {
    std::string id;
    hack_class kind;
    source_signature signature;
  };
  void forget_oldest();

  std::deque<known_case> cases_;
  uint64_t first_ = 0;                                           // number of cases_.front()
  std::unordered_map<uint64_t, std::vector<uint64_t>> in_band_;  // band and its hashes -> numbers, ascending
};

}  // namespace cudal1
