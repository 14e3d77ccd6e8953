// A verdict, line by line: for `evaluate` and `show`.
#pragma once

#include <string>

#include "sandbox/evaluation.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// Each gate with its figures, the timing with its interval, the outcome with its reason, and what the compiler said
// where that was the reason; every line after two blanks.
std::string print_verdict(const verdict& v, const terminal& t);
// "correct, 1.83x [1.80, 1.86]" or "wrong_answer: gate 3 ...".
std::string one_line(const verdict& v);
// How the raw samples spread, one line for each pair of processes.
std::string print_samples(const verdict& v, const terminal& t);

}  // namespace cudal1::cli
