// A runner that speaks the GPU's protocol and computes on the CPU, in a process forked off the test: interpreter,
// kernels of the `cpu` device, and the CPU's arena in the memory that the referee gave it.
#pragma once

#include <functional>

#include "config/base/unique_fd.hpp"

namespace cudal1::test {

struct forked_process {
  forked_process() = default;
  forked_process(forked_process&& other) noexcept { *this = std::move(other); }
  forked_process& operator=(forked_process&& other) noexcept;
  ~forked_process();  // ended and waited for
  int pid = 0;
  unique_fd channel, pidfd;  // the referee's ends, to be handed over
  // How it ended: the signal, or 0. Waits.
  int wait();
};

// `body` gets the other end of the channel; its result is the exit code.
forked_process fork_process(const std::function<int(int channel)>& body);

int serve_on_cpu(int channel);

}  // namespace cudal1::test
