// What the referee remembers of a checked variant, and how a timed output may differ from it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/base/hash.hpp"
#include "sandbox/evaluation.hpp"

namespace cudal1 {

// What a checked call of one variant gave on one draw: what a timed call must give as well.
struct known_output {
  fingerprint bits;
  std::vector<double> errors;  // output_check::error of each output
  uint64_t key = 0;            // of the fingerprint, where each has its own
};

// By variant and draw's seed, for the last few variants.
class known_outputs {
 public:
  const known_output* find(const std::string& variant, uint64_t seed) const;
  void remember(const std::string& variant, uint64_t seed, known_output output);

 private:
  std::map<std::string, std::map<uint64_t, known_output>> known_;
  std::vector<std::string> order_;  // oldest first
};

// "" where a timed output is as good an output as the checked one, whose error against the exact output was
// `checked_error`; else what is wrong with it.
std::string timed_difference(const output_check& timed, double checked_error, dtype type);
// The same of all outputs of a timed call, as a sentence: `same_bits` says whether its fingerprint was the checked
// one's.
std::string timed_inconsistency(const std::vector<output_check>& timed, const known_output& known, bool same_bits,
                                const std::vector<tensor_type>& types);

}  // namespace cudal1
