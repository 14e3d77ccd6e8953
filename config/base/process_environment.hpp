#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cudal1 {

// The variables of this process, each as "NAME=value".
std::vector<std::string> process_environment();

// The value of a variable among such entries; "" if there is none.
std::string_view variable_of(const std::vector<std::string>& environment, std::string_view name);

}  // namespace cudal1
