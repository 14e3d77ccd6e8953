#include "sandbox/device/core_turn.hpp"

#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/file.h>

#include "config/base/stopwatch.hpp"

namespace cudal1 {

namespace {

constexpr int look_every_ms = 5;

// Locks the open file, not the process: a claim of the same name would be another lock.
expected<void> lock(int file, int cancel) {
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return fail(errc::infrastructure, "a turn on the timing core: flock: {}", std::strerror(errno));
    pollfd entry{cancel, POLLIN, 0};
    if (::poll(&entry, 1, look_every_ms) > 0) return fail(errc::cancelled, "cancelled");
  }
  return {};
}

}  // namespace

expected<core_turn> core_turn::open(const machine_claims& machine, int core) {
  core_turn t;
  CUDAL1_TRY(t.queue_, machine.open_file(fmt::format("queue-core-{}", core)));
  CUDAL1_TRY(t.turn_, machine.open_file(fmt::format("turn-core-{}", core)));
  return t;
}

// Only who has the queue's lock waits for the turn. Who gives a turn back and wants the next one finds it taken.
expected<double> core_turn::take(int cancel) {
  if (is_ours_) return 0.0;
  const stopwatch took;
  CUDAL1_CHECK(lock(queue_.get(), cancel));
  const auto taken = lock(turn_.get(), cancel);
  ::flock(queue_.get(), LOCK_UN);
  CUDAL1_CHECK(taken);
  is_ours_ = true;
  return took.ms();
}

void core_turn::give_back() {
  if (std::exchange(is_ours_, false)) ::flock(turn_.get(), LOCK_UN);
}

}  // namespace cudal1
