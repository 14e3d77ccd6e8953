// A draw's tensors and expected outputs on `cpu`.
#pragma once

#include <vector>

#include <boost/container/vector.hpp>

#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/referee/referee_backend.hpp"

namespace cudal1 {

// A file in memory, laid out by layout_of, which runners map for reading once it is sealed.
struct cpu_tensors final : drawn_tensors {
  std::vector<tensor_type> types;
  unique_fd file;
  mapping writable;  // until it is sealed

  expected<mapped_tensors> map() const { return mapped_tensors::map(file.get(), layout_of(types)); }
  static const cpu_tensors& of(const std::shared_ptr<const drawn_tensors>& tensors) {
    return static_cast<const cpu_tensors&>(*tensors);
  }
};

// One flat tensor for each output.
using flat_tensors = std::vector<boost::container::vector<std::byte>>;

struct cpu_expected_outputs final : expected_outputs {
  flat_tensors shipped, exact;
};

}  // namespace cudal1
