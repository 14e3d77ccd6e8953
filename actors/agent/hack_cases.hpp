// Hack cases: which refused variants become one, and which new variants are written like one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/program/program.hpp"
#include "sandbox/verify/hack_index.hpp"
#include "store/store.hpp"

namespace cudal1 {

// What a verdict is evidence of, ready to be stored. Nothing for a variant that our own moves wrote (its fault is
// ours), for a program without a source, and for what hack_evidence_of() leaves out.
std::optional<hack_case> hack_case_of(const variant_record& v, const verdict& judged, const std::string& experiment);

// The cases that new variants are compared with. Not thread-safe.
class hack_watch {
 public:
  void add(const std::vector<hack_case>& newer);
  // The number of the newest case that was added; 0: none.
  uint64_t last() const { return last_; }
  // "its source is 93% like that of hack case h12 (writes to an input)"; "" if no case is that similar.
  std::string likeness_of(const program& p, double at_least) const;

 private:
  hack_index index_;
  uint64_t last_ = 0;
};

}  // namespace cudal1
