// The devices of this machine that a node is to use, and the cores that they ask for.
#pragma once

#include <string>
#include <vector>

#include "actors/cores.hpp"
#include "actors/node_actor.hpp"
#include "config/configuration.hpp"
#include "sandbox/cuda/gpus/gpu.hpp"

namespace cudal1 {

// What `wanted` ("auto", or a list of names) means on a machine with these GPUs; errc::invalid_argument for what is not
// there.
expected<std::vector<node_device>> devices_of(const std::string& wanted, const std::vector<gpu_description>& gpus);
// The same on this machine. Its driver is asked only where `wanted` may mean a GPU, so that a broken one hinders nobody
// who uses `cpu`.
expected<std::vector<node_device>> find_devices(const std::string& wanted);

std::vector<core_wish> core_wishes_of(const std::vector<node_device>& devices, const device_options& options);

}  // namespace cudal1
