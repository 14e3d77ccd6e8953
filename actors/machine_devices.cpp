#include "actors/machine_devices.hpp"

#include <algorithm>

#include "config/device_names.hpp"

namespace cudal1 {

expected<std::vector<node_device>> devices_of(const std::string& wanted, const std::vector<gpu_description>& gpus) {
  CUDAL1_TRY(const auto names, choose_device_names(wanted, static_cast<int>(gpus.size())));
  std::vector<node_device> devices;
  for (const auto& name : names) {
    if (const int index = index_of_gpu(name); index >= 0) {
      const auto& g = gpus[static_cast<std::size_t>(index)];
      devices.push_back({name, g.architecture(), g.name, g.near_cores});
    } else {
      devices.push_back({name, "cpu", "", {}});
    }
  }
  return devices;
}

expected<std::vector<node_device>> find_devices(const std::string& wanted) {
  const auto named = read_device_list(wanted);
  if (named && std::all_of(named->begin(), named->end(), [](const auto& name) { return name == "cpu"; }))
    return devices_of(wanted, {});
  CUDAL1_TRY(const auto gpus, find_gpus());
  return devices_of(wanted, gpus);
}

std::vector<core_wish> core_wishes_of(const std::vector<node_device>& devices, const device_options& options) {
  std::vector<core_wish> wishes;
  for (const auto& d : devices) {
    if (index_of_gpu(d.name) >= 0) {
      wishes.push_back({d.name, options.cores_per_gpu, 1, d.near_cores, -1});
    } else {
      const int64_t threads = std::max<int64_t>(options.threads, 1);
      wishes.push_back({d.name, threads, threads, {}, options.timing_core});
    }
  }
  return wishes;
}

}  // namespace cudal1
