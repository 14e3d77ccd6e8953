// Closes the memory of a process while kernels run, but for what they may use, so that none can leave anything anywhere
// else, or read what is there. For processes of one thread: others would stop at their first access to their stacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// Whole pages.
struct memory_range {
  uintptr_t begin = 0, end = 0;
  static memory_range of(const void* data, std::size_t bytes);  // that these bytes touch
};

class memory_lock {
 public:
  // Opens the list of this process's mappings, which it cannot do any more when it is confined. `usable`: stays open to
  // kernels for good, as do the stack for signal handlers and the memory of thread-local variables, which is restored
  // instead. One a process. Errors: infrastructure.
  static expected<std::unique_ptr<memory_lock>> create(std::span<const memory_range> usable);
  ~memory_lock();
  memory_lock(const memory_lock&) = delete;
  memory_lock& operator=(const memory_lock&) = delete;

  // Whether the launches from here on are to run with all else closed; at first they are not. It takes some 2 ms, so
  // of each kernel it is the first three launches, and of the others an eighth, chosen by the seed: none can tell, for
  // that it would have to read what is closed.
  void set_wanted(bool wanted, uint64_t seed);
  // For a launch of a kernel that had so many of them before, where it is wanted.
  bool is_wanted(int64_t before);

  // For code that libraries have generated: it can be executed still, and not be written any more. Not for a confined
  // process. Errors: infrastructure.
  expected<void> make_code_read_only();

  // A launch closes memory in three steps. First, on any stack: finds the mappings that are not to be used. `usable`:
  // further ranges, for this launch. Errors: infrastructure.
  expected<void> prepare(std::span<const memory_range> usable);
  // On a stack that stays open, with nothing in use from other memory: closes what prepare() found. What libraries have
  // as variables can be read still, everything else not. Ends the process where the system refuses that.
  static void close();
  // Opens it again; does nothing where it is open. Async-signal-safe.
  static void reopen();
  // After reopen(): thread-local variables have the values again that they had at prepare().
  void restore_thread_memory() const;

  // A stack for the handlers of signals, which may run while memory is closed.
  std::span<std::byte> signal_stack() const;
  // Overwrites what was left on that stack.
  void forget();

 private:
  struct mapping_line;
  memory_lock() = default;
  static bool parse(const char* line, mapping_line& m);
  expected<void> each_mapping(const std::function<void(const mapping_line&)>& take);

  unique_fd mappings_;
  std::vector<memory_range> usable_;
  std::vector<std::byte> thread_memory_;  // as it was at prepare()
  std::string text_;                      // of the list of mappings
  void* stack_ = nullptr;
  bool is_wanted_ = false;
  uint64_t random_ = 0;
};

}  // namespace cudal1
