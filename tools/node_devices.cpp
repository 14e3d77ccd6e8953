#include "tools/node_devices.hpp"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "actors/agent/machine_devices.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1 {

expected<void> open_replays(configuration& c, const std::string& data, replay_devices& replays) {
  if (!names_replay(c.device.devices)) return {};
  CUDAL1_TRY(const auto source, replay_source::open(c.replay, data));
  spdlog::info("replaying {}", source->describe());
  replays.use(source);
  for (auto* devices : {&c.device.devices, &c.device.policy_devices})
    if (!devices->empty()) *devices = with_replayed_kind(*devices, source->kind());
  return {};
}

expected<void> reserve_policy_devices(node_options& o) {
  const auto& wanted = o.settings.device.policy_devices;
  if (wanted.empty()) return {};
  CUDAL1_TRY(o.policy_devices, devices_of_node(wanted));
  CUDAL1_TRY(const auto asked,
             read_device_list(o.settings.device.devices == "auto" ? wanted : o.settings.device.devices));
  for (const auto& device : o.policy_devices) {
    if (o.settings.device.devices != "auto" && std::ranges::count(asked, device.name) > 0)
      return fail(errc::invalid_argument,
                  "device {} is to measure (--device, device.devices) and is reserved for the policy's models "
                  "(device.policy_devices): take it out of one of them",
                  device.name);
    std::erase_if(o.devices, [&](const auto& d) { return d.name == device.name; });
  }
  return {};
}

}  // namespace cudal1
