// Decides which times count on a shared host, whose speed changes from moment to moment.
#pragma once

#include <string>
#include <vector>

#include "sandbox/evaluation_records.hpp"
#include "store/baseline_record.hpp"

namespace cudal1::cli {

// Times count if the host was at most this many times slower than at its best (as in tools/python/host_pace.py).
inline constexpr double same_pace = 1.1;

// Whether a kind costs little to measure again: eager, cudnn and graph; torch.compile takes about a minute.
bool is_cheap(const std::string& kind);

// What earlier measurements say; "" and 0: unknown.
struct known_best {
  std::string variant;    // the current best; "" also if a record of another variant is no reason to measure again
  double pace_us = 0;     // baseline_record::pace_us of the host at its fastest
  double program_us = 0;  // the call time of the task's own program then
};

// The kinds among `kinds` that have to be measured: kinds without a record, and cheap kinds (is_cheap) whose newest
// record is of another variant than the current best, or of a slow host whose speed affects the time. `records` are of
// devices and hosts like the current one.
std::vector<std::string> missing_kinds(const std::vector<baseline_record>& records,
                                       const std::vector<std::string>& kinds, const known_best& best);

// A note for each of the two programs (variant and task's own) whose device time differs from that of the confirming
// verdict. The host cannot cause that, but a library's choice of another algorithm can, or other memory addresses; the
// interval of one evaluation does not include it. Both verdicts must be of devices that are alike.
std::vector<std::string> changes_on_device(const verdict& then, const verdict& now);

}  // namespace cudal1::cli
