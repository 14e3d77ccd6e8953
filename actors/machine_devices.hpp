// The devices of this machine that a node uses, and the cores that they request.
#pragma once

#include <string>
#include <vector>

#include "actors/node_actor.hpp"
#include "config/configuration.hpp"
#include "sandbox/device/device_type.hpp"

namespace cudal1 {

// The devices that `wanted` ("auto", or a list of names) means on this machine; errc::invalid_argument if one does not
// exist.
expected<std::vector<node_device>> devices_of_node(const std::string& wanted);

std::vector<core_request> core_requests_of(const std::vector<node_device>& devices, const device_options& options);

}  // namespace cudal1
