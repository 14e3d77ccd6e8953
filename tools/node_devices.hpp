// Which devices a node has, and what each is for.
#pragma once

#include <string>

#include "actors/agent/node_options.hpp"
#include "store/replay/replay_devices.hpp"

namespace cudal1 {

// The devices get their full names, if any of them replays; from then on they exist.
expected<void> open_replays(configuration& c, const std::string& data, replay_devices& replays);

// Moves the devices that device.policy_devices names from those that measure.
expected<void> reserve_policy_devices(node_options& o);

}  // namespace cudal1
