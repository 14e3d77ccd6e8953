// The settings of a running node, which it writes to a file of its data folder: the command line compares its own
// --set with them, since a node keeps the settings that it was started with.
#pragma once

#include <string>
#include <vector>

#include "config/configuration.hpp"

namespace cudal1 {

// `by_kind`: the node's configuration for each kind of device that it uses. Called before the node can be connected to.
expected<void> write_node_settings(const std::string& data, const std::vector<configuration>& by_kind);

// Which of these settings ("section.key=value") the node with that process id does not have; all of them if the file is
// missing or of another node. errc::invalid_argument for one that is no setting.
expected<std::vector<std::string>> settings_not_in_force(const std::string& data, int pid,
                                                         const std::vector<std::string>& settings);

}  // namespace cudal1
