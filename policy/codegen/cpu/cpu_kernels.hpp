// The kernel forms for the CPU, and the defaults of their options. Private to this folder.
#pragma once

#include <algorithm>

#include "policy/codegen/emit_kernel.hpp"
#include "policy/codegen/kernel_tunable.hpp"
#include "policy/tile/statement.hpp"

namespace cudal1 {

expected<emitted_kernel> emit_elements(const emit_request& request);  // one index over all elements
expected<emitted_kernel> emit_rows(const emit_request& request);      // one thread per row, lanes along the columns
expected<emitted_kernel> emit_tiles(const emit_request& request);     // one thread per tile of rows, lanes across rows

// Bytes of a thread's arrays: the host's compiler refuses frames above 48 KiB.
inline constexpr int64_t k_most_frame_bytes = 47 << 10;

// The arrays of a kernel that are on its thread's stack.
class stack_arrays {
 public:
  tile::buffer_id declare(tile::kernel_builder& b, std::string name, dtype type, int64_t elements,
                          std::string remark = {});
  bool fits(dtype type, int64_t elements, int64_t limit) const { return bytes_ + bytes_of(type, elements) <= limit; }
  int64_t bytes() const { return bytes_; }

 private:
  static int64_t bytes_of(dtype type, int64_t elements) { return elements * std::max<int64_t>(size_of(type), 4); }
  int64_t bytes_ = 0;
};

// The options, with the default for each number that is not chosen.
kernel_options with_cpu_defaults(const kernel_body& body, kernel_options options);

}  // namespace cudal1
