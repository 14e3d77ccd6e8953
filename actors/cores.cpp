#include "actors/cores.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <sched.h>

namespace cudal1 {

core_layout lay_out_cores(std::vector<int> allowed, int64_t threads, int64_t timing_core) {
  core_layout l;
  l.all = std::move(allowed);
  if (timing_core >= 0) {
    l.timing.push_back(static_cast<int>(timing_core));
  } else {
    const auto count = std::min(l.all.size(), static_cast<std::size_t>(std::max<int64_t>(threads, 1)));
    l.timing.assign(l.all.end() - static_cast<std::ptrdiff_t>(count), l.all.end());
  }
  for (const int core : l.all)
    if (std::find(l.timing.begin(), l.timing.end(), core) == l.timing.end()) l.others.push_back(core);
  if (l.others.empty()) {
    l.others = l.all;
    l.timing.clear();
  }
  return l;
}

std::vector<int> cores_of_this_thread() {
  std::vector<int> cores;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &set)) cores.push_back(c);
  return cores;
}

expected<void> move_this_thread(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int c : cores)
    CPU_SET(c, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    return fail(errc::io_error, "cannot choose the cores of a thread: {}",
                std::error_code(errno, std::generic_category()).message());
  return {};
}

}  // namespace cudal1
