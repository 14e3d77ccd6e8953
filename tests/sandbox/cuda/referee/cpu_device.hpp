// The referee's device on the CPU: its kernels as the `cpu` device compiles them, memory that processes share, ATen.
#pragma once

#include <memory>

#include "sandbox/cuda/referee/referee_device.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1::test {

// Memory that is made on it (make_memory) is at most `room` bytes at a time.
std::unique_ptr<referee_device> make_cpu_device(int64_t room = int64_t{1} << 40);

// y = relu(x + w) of n floats; `more` goes into the declaration of x.
task add_relu_task(int64_t n, const std::string& more = "");

}  // namespace cudal1::test
