// Ctrl-C: the first asks to stop, the second leaves at once with exit code 130.
#pragma once

#include <csignal>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1::cli {

// Takes SIGINT and SIGTERM while it lives; one at a time. The first signal makes fd() readable until acknowledge(); the
// second shows the cursor again and leaves.
class interrupt_watch {
  using disposition = struct sigaction;

 public:
  static expected<interrupt_watch> start();
  interrupt_watch(interrupt_watch&& other) noexcept = default;
  interrupt_watch& operator=(interrupt_watch&&) = delete;
  ~interrupt_watch();

  int fd() const { return event_.get(); }
  // Reads the signal, so that fd() wakes nobody any more.
  void acknowledge();

 private:
  explicit interrupt_watch(unique_fd event) : event_(std::move(event)) {}
  unique_fd event_;
  disposition before_int_{}, before_term_{};
};

}  // namespace cudal1::cli
