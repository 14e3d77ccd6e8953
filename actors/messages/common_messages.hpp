// Messages that actors of all rooms use.
#pragma once

#include <cstdint>

#include <boost/describe.hpp>

namespace cudal1::message {

// The answer to a request that returns nothing.
struct done {
  bool yes = true;
};
BOOST_DESCRIBE_STRUCT(done, (), (yes))

// A timer: sent by an actor to itself, with a delay.
struct tick {
  int64_t number = 0;
};
BOOST_DESCRIBE_STRUCT(tick, (), (number))

}  // namespace cudal1::message
