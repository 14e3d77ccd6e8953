// Which cores this process uses for what: those that are timing are kept free of everything else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sandbox/device/device_type.hpp"

namespace cudal1 {

struct core_layout {
  std::vector<int> all;                            // that this process was allowed
  std::map<std::string, std::vector<int>> timing;  // by device; empty where there are too few to keep them apart
  std::vector<int> others;                         // for the node, its compilers and its learner

  // Those that a device's processes may see: all but the other devices'.
  std::vector<int> seen_by(const std::string& device) const;
  std::vector<int> timing_of(const std::string& device) const;
};

// Devices are served in their order, those with a fixed core before, each from the end of what is left: near cores
// first. As many each as leave half of the cores to the rest, or the least that they want where that leaves any; else
// none of their own.
core_layout lay_out_cores(std::vector<int> allowed, const std::vector<core_request>& requests);

}  // namespace cudal1
