// Which tasks are parts of others, and what follows for how their variants are compared.
#pragma once

#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// The family of all parts. Reports on a whole store leave them out; their tensors' order in memory is their whole's
// choice.
inline constexpr const char* part_family = "part";

// The clock by which variants of the task are scored, where the device has it: a part's launches are its whole's.
inline score_clock compared_by(const task& of) {
  return of.family == part_family ? score_clock::device : score_clock::call;
}

// Whether the task was scored by its calls although it is compared by device times and its device has a clock, as
// earlier versions did: such a score does not compare with others of the task.
inline bool is_outdated_score(const task& of, const measured_score& m) {
  return compared_by(of) == score_clock::device && m.scored_by == score_clock::call && m.variant_device_us > 0;
}

}  // namespace cudal1
