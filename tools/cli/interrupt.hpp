// Ctrl-C: the first requests a stop, the second exits immediately with exit code 130.
#pragma once

#include <csignal>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1::cli {

// Handles SIGINT and SIGTERM during its lifetime; only one may exist at a time. The first signal makes fd() readable
// until acknowledge(); the second shows the cursor again and exits the process.
class interrupt_watch {
  using disposition = struct sigaction;

 public:
  static expected<interrupt_watch> start();
  interrupt_watch(interrupt_watch&& other) noexcept = default;
  interrupt_watch& operator=(interrupt_watch&&) = delete;
  ~interrupt_watch();

  int fd() const { return event_.get(); }
  // Clears the event: fd() is no longer readable.
  void acknowledge();

 private:
  explicit interrupt_watch(unique_fd event) : event_(std::move(event)) {}
  unique_fd event_;
  disposition before_int_{}, before_term_{};
};

}  // namespace cudal1::cli
