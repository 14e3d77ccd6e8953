// The referee's record of a checked variant's outputs, and how timed outputs may differ from them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/base/hash.hpp"
#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// The outputs of a checked call on one draw. A timed call must give the same.
struct known_output {
  fingerprint bits;
  std::vector<double> errors;  // output_check::error of each output
  uint64_t key = 0;            // of the fingerprint
};

// Indexed by variant and seed of the draw, for the last few variants.
class known_outputs {
 public:
  const known_output* find(const std::string& variant, uint64_t seed) const;
  void remember(const std::string& variant, uint64_t seed, known_output output);

 private:
  std::map<std::string, std::map<uint64_t, known_output>> known_;
  std::vector<std::string> order_;  // oldest first
};

// "" if a timed output is as accurate as the checked one, whose error against the exact output was `checked_error`;
// else the reason.
std::string timed_difference(const output_check& timed, double checked_error, dtype type);
// Whether a timed call's fingerprint equals the checked one.
enum class timed_bits { same, different };
// timed_difference() of all outputs of a timed call, as a sentence.
std::string timed_inconsistency(const std::vector<output_check>& timed, const known_output& known, timed_bits bits,
                                const std::vector<tensor_type>& types);

}  // namespace cudal1
