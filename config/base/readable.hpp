// Whether there is something to read: data, an end, or an event.
#pragma once

#include <chrono>

#include <poll.h>

namespace cudal1 {

// Waits for it at most so long.
inline bool is_readable(int fd, std::chrono::milliseconds wait = std::chrono::milliseconds(0)) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(wait.count())) > 0;
}

}  // namespace cudal1
