// Formats a verdict for `evaluate` and `show`.
#pragma once

#include <optional>
#include <string>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/verify/roofline.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// "pass", "FAIL", or "skip" of a check that does not apply here.
std::string gate_mark(const gate_result& gate, const terminal& t);
// Each gate with its numbers, the timing with its interval, the comparison with the roof and the floor, the resources
// of each kernel, the notes, the outcome with its reason and, unless it is `correct`, the compiler's output. Every line
// is indented by two spaces.
std::string print_verdict(const verdict& v, const terminal& t, const std::optional<roofline>& roof = std::nullopt);
// "32 registers, 4.00 KiB of shared memory, no spills".
std::string print_resources(const kernel_resources& k);
// The spread of the raw samples, one line for each fork.
std::string print_samples(const verdict& v, const terminal& t);

}  // namespace cudal1::cli
