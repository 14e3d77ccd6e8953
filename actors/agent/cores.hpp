// Which cores this process uses for what: cores for timing are kept free of everything else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/device/device_type.hpp"
#include "sandbox/device/machine_claims.hpp"

namespace cudal1 {

struct core_layout {
  std::vector<int> all;                            // that this process may use
  std::map<std::string, std::vector<int>> timing;  // by device; empty if there are too few to keep any free
  std::vector<int> others;                         // for the node, its compilers and its learner
  std::map<std::string, std::string> remarks;      // by device: why its measurements may be disturbed

  // The cores that a device's processes may use: all but the timing cores of other devices.
  std::vector<int> seen_by(const std::string& device) const;
  std::vector<int> timing_of(const std::string& device) const;
};

// Devices with a fixed core are served first, then the others in order; each takes cores from the end of those left,
// near ones first. Each gets as many as leave half of all cores to the rest; if that is too few, the least that it
// requests, if that leaves any; else none.
core_layout lay_out_cores(std::vector<int> allowed, const std::vector<core_request>& requests);

// A layout as of lay_out_cores(), without the cores on which other nodes of this machine time calls, and with claims on
// those that it chooses. Nothing if too few are left for that.
std::optional<core_layout> lay_out_unclaimed_cores(const std::vector<int>& allowed,
                                                   const std::vector<core_request>& requests, machine_claims& claims);

// The layout of a node: the latter, or where too few cores are left one that shares cores with other nodes, or that
// keeps none free; its remarks say so.
core_layout lay_out_cores_of_node(const std::vector<int>& allowed, const std::vector<core_request>& requests,
                                  machine_claims& claims);
// Adds the remarks on devices that have no core of their own.
void remark_on_missing_cores(core_layout& l, const std::vector<core_request>& requests);

}  // namespace cudal1
