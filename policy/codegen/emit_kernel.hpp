// A kernel body as CUDA C++ text and the steps that run it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/body/kernel_body.hpp"
#include "policy/tile/kernel_work.hpp"

namespace cudal1 {

struct emitted_kernel {
  std::string source;
  std::vector<step> steps;  // allocations and launches
  std::vector<step> setup;  // the same, of what depends on constant operands only
  kernel_works work;        // of kernels whose writers describe it

  void append(emitted_kernel next);  // runs after this one
};

struct emit_request {
  const kernel_body* body = nullptr;
  kernel_options options;
  std::string name;     // of the kernel; further kernels get a suffix
  std::string comment;  // what it computes
  // Prefix of the names of values that one of its kernels computes for another: unique in a program, where several
  // groups may share a kernel.
  std::string values = name;
};

// Adds one column to a body that reduces only dimensions of size 1 (which were removed); empty for any other body.
std::optional<kernel_body> with_one_column(const kernel_body& body);

}  // namespace cudal1
