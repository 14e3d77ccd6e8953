// Device names on a command line: `replay` stands for a replay of the kind of device whose verdicts are replayed.
#pragma once

#include <string>

#include "config/base/error.hpp"
#include "tools/cli/node_process.hpp"

namespace cudal1::cli {

// The devices of the list with full names, "replay-cpu:0" for "replay:0": of the kind that the node replays, or else
// that the configuration of a node with these flags names. errc::invalid_argument if there is nothing to replay.
expected<std::string> full_device_names(const std::string& devices, const node_flags& flags, const context& c);

}  // namespace cudal1::cli
