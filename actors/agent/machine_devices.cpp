#include "actors/agent/machine_devices.hpp"

#include <fmt/format.h>

#include "sandbox/device/device_names.hpp"

namespace cudal1 {

std::string compile_target(const found_device& device) {
  const bool any_model = traits_of(device.name).is_accelerator || device.model.empty();
  return any_model ? device.architecture : fmt::format("{} ({})", device.architecture, device.model);
}

expected<std::vector<node_device>> devices_of_node(const std::string& wanted) {
  if (wanted == "none") return std::vector<node_device>{};
  CUDAL1_TRY(const auto found, find_devices(wanted));
  std::vector<node_device> devices;
  for (const auto& device : found)
    devices.push_back({device, {}});
  return devices;
}

std::vector<core_request> core_requests_of(const std::vector<node_device>& devices, const device_options& options) {
  std::vector<core_request> requests;
  for (const auto& device : devices)
    requests.push_back(find_device_type(device.name)->cores_for(device, options));
  return requests;
}

expected<const lowering_target*> lowering_target_of(std::string_view devices) {
  CUDAL1_TRY(const std::string kind, kind_of_devices(devices));
  return find_lowering_target(traits_of(kind).target);
}

}  // namespace cudal1
