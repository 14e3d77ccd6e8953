#include "tools/cli/replay_choice.hpp"

#include "store/replay/replay_devices.hpp"

namespace cudal1::cli {

expected<std::string> full_device_names(const std::string& devices, const node_flags& flags, const context& c) {
  if (!names_replay(devices)) return devices;
  if (const auto node = connect_to_node(c))
    for (const auto& d : node->status.devices)
      if (const auto& kind = traits_of(d.where.device).replays; !kind.empty()) return with_replayed_kind(devices, kind);
  CUDAL1_CHECK(refuse_remote(c, "a node that replays is started with its data folder"));
  CUDAL1_TRY(const configuration settings, configuration_of(flags, c.data));
  CUDAL1_TRY(const auto source, replay_source::open(settings.replay, c.data));
  return with_replayed_kind(devices, source->kind());
}

}  // namespace cudal1::cli
