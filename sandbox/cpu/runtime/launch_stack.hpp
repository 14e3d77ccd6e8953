// A stack for the calling thread's share of a launch, so that what kernels find beside their own frames are frames of
// ours that end with the launch.
#pragma once

#include <memory>

#include "config/base/error.hpp"
#include "sandbox/cpu/runtime/memory_lock.hpp"

namespace cudal1 {

class launch_stack {
 public:
  // 8 MiB, as a process's first thread usually has, between guard pages. Errors: infrastructure.
  static expected<std::unique_ptr<launch_stack>> create();
  ~launch_stack();
  launch_stack(const launch_stack&) = delete;
  launch_stack& operator=(const launch_stack&) = delete;

  // Runs `work` on this stack and returns when it does. It must not throw.
  template <class Work>
  void run(const Work& work) {
    run([](const void* w) { (*static_cast<const Work*>(w))(); }, &work);
  }
  // Overwrites what was left on it.
  void forget();
  memory_range range() const;

 private:
  explicit launch_stack(char* base) : base_(base) {}
  void run(void (*work)(const void*), const void* with);

  char* base_;  // of the lower guard page
};

}  // namespace cudal1
