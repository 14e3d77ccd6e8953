// How searches that run at the same time share the devices.
#pragma once

#include <boost/describe.hpp>

namespace cudal1 {

// Beside others, a search of `high` gets four times as much of the devices' time as one of `normal`, one of `low` a
// quarter.
BOOST_DEFINE_ENUM_CLASS(search_priority, low, normal, high)

constexpr double weight_of(search_priority priority) {
  return priority == search_priority::high ? 4 : priority == search_priority::low ? 0.25 : 1;
}

}  // namespace cudal1
