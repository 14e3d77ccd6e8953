// What ptxas says of each kernel (--ptxas-options=-v).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sandbox/evaluation.hpp"

namespace cudal1 {

// Of the kernels named, in their order; zeros where the log says nothing of one. Where it says something twice the last
// word counts: ptxas speaks after the front end, which may quote the program.
std::vector<kernel_resources> resources_in(std::string_view log, const std::vector<std::string>& kernels);

// The log without ptxas's statistics: what is left is for people.
std::string messages_in(std::string_view log);

}  // namespace cudal1
