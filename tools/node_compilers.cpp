#include "tools/node_compilers.hpp"

#include <spdlog/spdlog.h>

#include "sandbox/device/device_type.hpp"

namespace cudal1 {

namespace {

expected<std::shared_ptr<kernel_compiler>> make_compiler(const node_options& o, const node_device& device) {
  const auto& type = *find_device_type(device.name);
  const auto& settings = o.of_kind.at(type.traits().kind);
  return type.make_compiler({device.architecture, settings.compiler, o.data + "/cache", o.worker, o.compile_workers,
                             settings.device.allow_weak_confinement});
}

}  // namespace

expected<std::map<std::string, std::shared_ptr<kernel_compiler>>> make_compilers(node_options& o) {
  std::map<std::string, std::shared_ptr<kernel_compiler>> compilers;
  std::map<std::string, error> problems;
  for (auto& device : o.devices) {
    const auto& architecture = device.architecture;
    if (!compilers.contains(architecture) && !problems.contains(architecture)) {
      auto made = make_compiler(o, device);
      if (made) {
        spdlog::info("compiler for {}: {}", architecture, (*made)->describe());
        compilers[architecture] = std::move(*made);
      } else {
        problems[architecture] = std::move(made).error();
      }
    }
    if (const auto found = problems.find(architecture); found != problems.end())
      device.problem = "no compiler for this device: " + found->second.message;
  }
  if (compilers.empty() && !problems.empty()) return tl::unexpected<error>(problems.begin()->second);
  return compilers;
}

}  // namespace cudal1
