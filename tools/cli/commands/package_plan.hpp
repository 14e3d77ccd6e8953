// A program as the runtime of packages reads it (tools/package_runtime): every value a number, every step resolved.
#pragma once

#include "config/base/json.hpp"
#include "sandbox/program/check.hpp"

namespace cudal1::cli {

// {"name", "values": [{"name", "dtype", "shape", "strides", "memory_of"}], "inputs", "weights", "kept", "outputs":
// places in values, "setup", "steps", "lanes", "events"}. "kept": what set-up makes and a call reads.
json package_plan(const checked_program& p);

}  // namespace cudal1::cli
