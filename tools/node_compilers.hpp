// The compilers that a node's devices need.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "actors/node_actor.hpp"

namespace cudal1 {

// One for each architecture among the devices; what no device needs may be missing on the machine. A device without its
// compiler is marked with the problem; an error where that leaves none.
expected<std::map<std::string, std::shared_ptr<kernel_compiler>>> make_compilers(node_options& o);

}  // namespace cudal1
