// A verdict, line by line: for `evaluate` and `show`.
#pragma once

#include <optional>
#include <string>

#include "sandbox/evaluation.hpp"
#include "sandbox/verify/roofline.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// Each gate with its figures, the timing with its interval, what the device's floor says of it, what the compiler made
// of each kernel, the notes, the outcome with its reason, and what the compiler said where that was the reason; every
// line after two blanks.
std::string print_verdict(const verdict& v, const terminal& t, const std::optional<roofline>& roof = std::nullopt);
// "32 registers, 4.00 KiB of shared memory, no spills".
std::string print_resources(const kernel_resources& k);
// "correct, 1.83x [1.80, 1.86]" or "wrong_answer: gate 3 ...".
std::string one_line(const verdict& v);
// How the raw samples spread, one line for each pair of processes.
std::string print_samples(const verdict& v, const terminal& t);

}  // namespace cudal1::cli
