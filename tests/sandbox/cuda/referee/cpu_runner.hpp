// A runner that speaks the GPU's protocol and computes on the CPU, in a process forked off the test: interpreter,
// kernels of the `cpu` device, and the CPU's arena in the memory that the referee gave it.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>

#include "config/base/unique_fd.hpp"
#include "sandbox/cuda/runtime/fingerprints.hpp"
#include "sandbox/interpreter/interpreter.hpp"

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

// `spoils`: what the first of several calls kept is changed once the last one is done.
int serve_on_cpu(int channel, bool spoils = false);

// What the kernel gives, of all outputs of a call.
fingerprint hash_on_host(std::span<const tensor_view> outputs, uint64_t key);
inline fingerprint hash_on_host(std::initializer_list<tensor_view> outputs, uint64_t key) {
  return hash_on_host(std::span(outputs.begin(), outputs.size()), key);
}

}  // namespace cudal1::test
