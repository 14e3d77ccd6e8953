#include "sandbox/cpu/referee/input_window.hpp"

#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace cudal1 {

expected<void> input_window::clear(int64_t bytes) {
  if (memory_ && memory_.size() == static_cast<std::size_t>(bytes)) {
    std::memset(memory_.data(), 0, memory_.size());
    return {};
  }
  CUDAL1_TRY(file_, make_shared_memory("cudal1-window", bytes));
  CUDAL1_TRY(memory_, map_shared(file_.get(), bytes, memory_access::read_write, paging::at_once));
  return seal_for_others(file_.get());
}

expected<void> input_window::put(int draw) {
  for (std::size_t done = 0; done < memory_.size();) {
    const ssize_t n = ::pread(draw, memory_.data() + done, memory_.size() - done, static_cast<off_t>(done));
    if (n <= 0)
      return fail(errc::infrastructure, "a draw's inputs cannot be read: {}",
                  n < 0 ? std::strerror(errno) : "too short");
    done += static_cast<std::size_t>(n);
  }
  return {};
}

}  // namespace cudal1
