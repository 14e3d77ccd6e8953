// The devices of this machine that a node is to use, and the cores that they ask for.
#pragma once

#include <string>
#include <vector>

#include "actors/node_actor.hpp"
#include "config/configuration.hpp"
#include "sandbox/device/device_type.hpp"

namespace cudal1 {

// What `wanted` ("auto", or a list of names) means on this machine, each device to be used with the settings of its
// kind; errc::invalid_argument for what is not there.
expected<std::vector<node_device>> devices_of_node(const std::string& wanted);

std::vector<core_request> core_requests_of(const std::vector<node_device>& devices, const device_options& options);

}  // namespace cudal1
