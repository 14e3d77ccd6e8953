// What tests assume to be known of parts.
#pragma once

#include "policy/search/assembly.hpp"
#include "policy/search/starting_schedules.hpp"

namespace cudal1::test {

// As if each part had been measured: its first whole schedule halves its time.
inline known_parts all_known(const task_partitions& parts, const lowering_target& target) {
  known_parts out;
  for (const task* part : distinct_tasks(parts)) {
    const auto whole = whole_schedules(*part, target);
    out[part->id] = whole.empty() ? known_part{{}, 10, 10} : known_part{whole.front(), 5, 10};
  }
  return out;
}

}  // namespace cudal1::test
