// Writing hack cases into a batch.
#pragma once

#include "store/hack_case.hpp"
#include "store/write_batch.hpp"

namespace cudal1 {

// As store::put_hack_case.
expected<hack_case> add_hack_case(write_batch& batch, hack_case c);

}  // namespace cudal1
