// A kernel body as CUDA C++ text and the steps that run it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/codegen/kernel_body.hpp"

namespace cudal1 {

struct emitted_kernel {
  std::string source;
  std::vector<step> steps;  // allocations and launches

  void append(emitted_kernel next);  // runs after this one
};

struct emit_request {
  const kernel_body* body = nullptr;
  group_options options;
  std::string name;     // of the kernel; a second one gets a suffix
  std::string comment;  // what it computes
};

// A reduction over dimensions of size one, which are gone, as rows of one column; nothing for any other body.
std::optional<kernel_body> with_one_column(const kernel_body& body);

}  // namespace cudal1
