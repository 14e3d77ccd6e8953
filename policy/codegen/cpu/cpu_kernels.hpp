// The kernel forms for the CPU, and the defaults of their options. Private to this folder.
#pragma once

#include "policy/codegen/emit_kernel.hpp"

namespace cudal1 {

expected<emitted_kernel> emit_elements(const emit_request& request);  // one index over all elements
expected<emitted_kernel> emit_rows(const emit_request& request);      // one thread per row, lanes along the columns
expected<emitted_kernel> emit_tiles(const emit_request& request);     // one thread per tile of rows, lanes across rows

// The options, with the default for each one that is 0.
group_options with_cpu_defaults(const kernel_body& body, group_options options);

}  // namespace cudal1
