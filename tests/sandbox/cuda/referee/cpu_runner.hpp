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
  ~forked_process();  // kills it and waits
  int pid = 0;
  unique_fd channel, pidfd;  // for the referee
  // How it ended: the signal, or 0. Waits.
  int wait();
};

// `body` gets the other end of the channel; its result is the exit code.
forked_process fork_process(const std::function<int(int channel)>& body);

// `spoils`: changes the outputs that the first of several calls kept, after the last one.
int serve_on_cpu(int channel, bool spoils = false);

// The fingerprint of all outputs of a call, as the kernel computes it.
fingerprint hash_on_host(std::span<const tensor_view> outputs, uint64_t key);
inline fingerprint hash_on_host(std::initializer_list<tensor_view> outputs, uint64_t key) {
  return hash_on_host(std::span(outputs.begin(), outputs.size()), key);
}

}  // namespace cudal1::test
