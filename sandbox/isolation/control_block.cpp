#include "sandbox/isolation/control_block.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/readable.hpp"

namespace cudal1 {
namespace {

void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

bool has_ended(int watched) {
  return watched >= 0 && is_readable(watched);
}

}  // namespace

void set_state(control_block& control, call_state value) noexcept {
  control.state.store(static_cast<uint32_t>(value), std::memory_order_release);
  // Not FUTEX_PRIVATE: the word is shared between processes.
  ::syscall(SYS_futex, &control.state, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

call_state wait_while(control_block& control, call_state from, deadline until, const wait_options& options) {
  const auto unchanged = static_cast<uint32_t>(from);
  const auto seen = [&] { return control.state.load(std::memory_order_acquire); };
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < options.spin)
    for (int i = 0; i < 32; ++i) {
      if (const uint32_t value = seen(); value != unchanged) return static_cast<call_state>(value);
      pause_briefly();
    }
  for (;;) {
    if (const uint32_t value = seen(); value != unchanged) return static_cast<call_state>(value);
    const auto now = std::chrono::steady_clock::now();
    if (now >= until || has_ended(options.watched)) return static_cast<call_state>(seen());
    // Short sleeps, since the end of the other process does not wake this one.
    const auto nap = std::min<std::chrono::nanoseconds>(until - now, std::chrono::milliseconds(2));
    const timespec span{0, static_cast<long>(nap.count())};
    ::syscall(SYS_futex, &control.state, FUTEX_WAIT, unchanged, &span, nullptr, 0);
  }
}

std::string printable(const char* text, std::size_t capacity) {
  std::string result;
  for (std::size_t i = 0; i < capacity && text[i] != '\0'; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    result += c < 0x20 || c >= 0x7f ? '?' : static_cast<char>(c);
  }
  return result;
}

}  // namespace cudal1
