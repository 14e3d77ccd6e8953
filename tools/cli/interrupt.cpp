#include "tools/cli/interrupt.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <sys/eventfd.h>
#include <unistd.h>

#include "tools/cli/command.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

namespace {

std::atomic<int> event_of_handler{-1};
std::atomic<int> signals{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

// Only async-signal-safe calls.
void on_signal(int) {
  const int saved = errno;
  if (signals.fetch_add(1) > 0) {
    if (::isatty(STDERR_FILENO) == 1) {
      const auto text = live_area::restore_sequence;
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
    }
    ::_exit(exit_code::interrupted);
  }
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_of_handler.load(), &one, sizeof one);
  errno = saved;
}

}  // namespace

expected<interrupt_watch> interrupt_watch::start() {
  unique_fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail(errc::io_error, "cannot create an eventfd for Ctrl-C: {}", std::strerror(errno));
  event_of_handler = event.get();
  signals = 0;
  interrupt_watch watch(std::move(event));
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &watch.before_int_);
  ::sigaction(SIGTERM, &action, &watch.before_term_);
  return watch;
}

interrupt_watch::~interrupt_watch() {
  if (!event_) return;  // moved from
  ::sigaction(SIGINT, &before_int_, nullptr);
  ::sigaction(SIGTERM, &before_term_, nullptr);
}

void interrupt_watch::acknowledge() {
  uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(event_.get(), &count, sizeof count);
}

}  // namespace cudal1::cli
