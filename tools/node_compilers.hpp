// The compilers that a node's devices need.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "actors/coordinator/coordinator_actor.hpp"

namespace cudal1 {

// One for each architecture among the devices; other compilers may be missing. A device without a compiler gets the
// reason as its `problem`; an error if no device has a compiler.
expected<std::map<std::string, std::shared_ptr<kernel_compiler>>> make_compilers(node_options& o);

}  // namespace cudal1
