// What ptxas reports about each kernel (--ptxas-options=-v).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// The resources of the named kernels, in their order; zeros for a kernel that the log does not mention. The last of
// several entries counts: ptxas writes after the front end, which may quote the program.
std::vector<kernel_resources> resources_in(std::string_view log, const std::vector<std::string>& kernels);

// The log without ptxas's statistics.
std::string messages_in(std::string_view log);

}  // namespace cudal1
