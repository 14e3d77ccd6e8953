// The forms of a kernel on a processor, and what their options are where nobody chose. Private to this folder.
#pragma once

#include "policy/codegen/emit_kernel.hpp"

namespace cudal1 {

expected<emitted_kernel> emit_elements(const emit_request& request);  // one index over all elements
expected<emitted_kernel> emit_rows(const emit_request& request);      // a thread a row, lanes along the columns
expected<emitted_kernel> emit_tiles(const emit_request& request);     // a thread a tile of rows, lanes across them

// The options with a number in the place of each that is open.
group_options with_cpu_defaults(const kernel_body& body, group_options options);

}  // namespace cudal1
