// A kernel body as CUDA C++ text and the steps that run it.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/kernel_body.hpp"

namespace cudal1 {

struct emitted_kernel {
  std::string source;
  std::vector<step> steps;  // allocations and launches
};

struct emit_request {
  const kernel_body* body = nullptr;
  group_options options;
  device_kind kind = device_kind::cpu;
  std::string name;     // of the kernel; a second one gets a suffix
  std::string comment;  // what it computes
};

// errc::unsupported with the reason where this device has no sensible form of the body.
expected<emitted_kernel> emit_kernel(const emit_request& request);

// Whether the rows lie side by side in memory and their columns apart: then a thread takes a tile of rows.
bool wants_tiles(const kernel_body& body);

// Values that the options leave open, as the emitter takes them.
int64_t default_threads(const kernel_body& body, device_kind kind);
int64_t default_items(const kernel_body& body, device_kind kind);
int64_t default_accumulators();

}  // namespace cudal1
