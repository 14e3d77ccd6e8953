// What a writer of programs must know about a kind of device: how fast code looks there, and its dialect of CUDA C++.
// One guide for each lowering target, in a file of its own; the words of prompts, kept apart from their rendering.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct prohibition {
  std::string what, why;
};

struct device_guide {
  std::string target;                    // name of the lowering target
  std::string about;                     // what runs a program there, in a few sentences
  std::vector<std::string> performance;  // how a fast program looks, the most important first
  std::vector<std::string> dialect;      // what kernels may use
  std::vector<prohibition> refused;      // what they may not, beyond what no device allows
};

// errc::unsupported, with the known ones, where no guide was written for the target.
expected<const device_guide*> guide_of(std::string_view target);

const device_guide& cpu_guide();
const device_guide& cuda_guide();

// What kernels of every device may use, and what none allows.
const std::vector<std::string>& common_dialect();
const std::vector<prohibition>& common_prohibitions();

}  // namespace cudal1
