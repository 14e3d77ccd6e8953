// The messages between the referee and a runner of `cpu`, one record per frame.
#pragma once

#include <cstdint>
#include <string>

#include <boost/describe.hpp>

namespace cudal1 {

// load: descriptor {object}, or none for a program without kernels.
struct load_request {
  std::string program;
  int64_t arena_bytes = 0;
  uint64_t seed = 0;
};
BOOST_DESCRIBE_STRUCT(load_request, (), (program, arena_bytes, seed))

// weights: descriptor {draw's file}; prepare: {file of the input window}, which holds the inputs only once the call has
// begun. `shift_pages` moves the addresses it is mapped at. `closes_memory`: while the call's kernels run, all memory
// that is not theirs is closed.
struct draw_message {
  uint64_t seed = 0;
  int64_t shift_pages = 0;
  bool closes_memory = true;
};
BOOST_DESCRIBE_STRUCT(draw_message, (), (seed, shift_pages, closes_memory))

// done: from a runner. Times in milliseconds, for reports only.
struct runner_reply {
  double setup_ms = 0;
  bool guards_intact = true;
  std::string guard_problem = {};
};
BOOST_DESCRIBE_STRUCT(runner_reply, (), (setup_ms, guards_intact, guard_problem))

}  // namespace cudal1
