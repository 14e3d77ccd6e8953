// What to think of times whose host serves others as well, and is slower at one moment than at another.
#pragma once

#include <string>
#include <vector>

#include "sandbox/evaluation.hpp"
#include "store/baseline_record.hpp"

namespace cudal1::cli {

// A host that is so many times slower than at its best is still as good as that (as in tools/python/pytorch_calls.py).
inline constexpr double same_pace = 1.1;

// Eager is as fast as its host is just then, and so are cudnn and graph; what torch.compile makes costs a minute, and
// stays.
bool is_cheap(const std::string& kind);

// What is known before: "" and 0 where nothing is.
struct known_best {
  std::string variant;    // the present best, where another one is a reason to measure again
  double pace_us = 0;     // baseline_record::pace_us where the host was at its best
  double program_us = 0;  // the call time of the task's own program there
};

// The kinds of that list that have to be measured: those without a record, and of those that cost little to measure
// what was measured beside another variant than the present best, or on a host that was slower than it can be, where
// that shows. `records` are of devices and hosts like the present one.
std::vector<std::string> missing_kinds(const std::vector<baseline_record>& records,
                                       const std::vector<std::string>& kinds, const known_best& best);

// A sentence for each of the two programs that took the device another time than when the variant was confirmed. No
// host explains that, but a library that chose another algorithm may, or memory that lies elsewhere; the interval of
// one evaluation does not know of it. Both of alike devices.
std::vector<std::string> changes_on_device(const verdict& then, const verdict& now);

}  // namespace cudal1::cli
