// The devices of this machine that a node uses, the cores that they request, and what programs are lowered for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/configuration.hpp"
#include "policy/codegen/lowering_target.hpp"
#include "sandbox/device/device_type.hpp"

namespace cudal1 {

struct node_device : found_device {
  std::string problem;  // why it cannot be used at all, if there is no compiler for it
};

// The devices that `wanted` ("auto", or a list of names) means on this machine; errc::invalid_argument if one does not
// exist. "none" is an empty list: for a coordinator of other machines.
expected<std::vector<node_device>> devices_of_node(const std::string& wanted);

// What programs for a device are compiled for: its architecture, and for those of a processor its model too, since they
// use all of its instructions.
std::string compile_target(const found_device& device);

std::vector<core_request> core_requests_of(const std::vector<node_device>& devices, const device_options& options);

// What programs for a device or a list of devices of one kind ("cuda:0,cuda:1") are lowered for, as the kind registers
// it. errc::invalid_argument for names of no registered kind, for lists of several kinds and for an unknown target.
expected<const lowering_target*> lowering_target_of(std::string_view devices);

}  // namespace cudal1
