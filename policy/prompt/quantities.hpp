// Quantities as prompts show them: plain ASCII with units, three significant digits.
#pragma once

#include <cstdint>
#include <string>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

std::string time_text(double microseconds);       // "812 us", "1.83 ms", "2.10 s"; "unknown" for 0
std::string size_text(double bytes);              // "512 B", "16.8 MB"; powers of 1000
std::string flops_text(double flops);             // "1.07 GFLOP"
std::string score_text(const measured_score& s);  // "1.83x, 95% interval [1.80, 1.86]"

}  // namespace cudal1
