#include "config/base/thread_cores.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/ranges.h>
#include <sched.h>

namespace cudal1 {

std::vector<int> cores_of_this_thread() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(static_cast<std::size_t>(c), &set)) cores.push_back(c);
  return cores;
}

expected<void> move_this_thread(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int c : cores)
    CPU_SET(static_cast<std::size_t>(c), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    return fail(errc::infrastructure, "cannot move a thread to core {}: {}", fmt::join(cores, ", "),
                std::strerror(errno));
  return {};
}

}  // namespace cudal1
