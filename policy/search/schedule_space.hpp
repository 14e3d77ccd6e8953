// The closed space of schedules of a small task, such as a part: what can be enumerated, counted and measured as a
// whole.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "policy/search/schedule_builder.hpp"

namespace cudal1 {

struct schedule_space {
  std::vector<schedule> schedules;    // of different programs; the first is empty: the task's own program
  std::vector<std::string> programs;  // their ids
  bool is_complete = true;            // else there are more than were asked for
};

inline constexpr std::size_t most_schedules_of_a_space = 256;
inline constexpr std::size_t most_steps_of_a_space = 32;  // the schedules of larger tasks take minutes to list

// Each implementation (a whole schedule, starting_schedules.hpp, also with another way to compute one of its steps),
// then each of them with one legal value of a tuning move, with two, and so on, at most one of each kind for each
// group. A schedule whose program an earlier one has is left out, and no value is added to it. Ends with the `most`-th
// one. Takes some milliseconds a schedule.
schedule_space space_of(const task& t, const lowering_target& target, std::size_t most);

}  // namespace cudal1
