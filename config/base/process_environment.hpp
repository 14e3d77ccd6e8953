#pragma once

#include <string>
#include <vector>

namespace cudal1 {

// The variables of this process, each as "NAME=value".
std::vector<std::string> process_environment();

}  // namespace cudal1
