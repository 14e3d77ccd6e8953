#include "tools/node_compilers.hpp"

#include <spdlog/spdlog.h>

#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/cuda/compiler/nvrtc_compiler.hpp"

namespace cudal1 {

namespace {

expected<std::shared_ptr<kernel_compiler>> make_host_compiler(const node_options& o) {
  const auto& c = o.settings.compiler;
  host_compiler_options h;
  h.compiler = c.command;
  h.cache_folder = o.data + "/cache";
  h.cache_limit_bytes = c.cache_mb << 20;
  h.time_limit_s = c.time_limit_s;
  h.memory_limit_bytes = c.memory_limit_mb << 20;
  h.allow_weak_confinement = o.settings.device.allow_weak_confinement;
  CUDAL1_TRY(std::unique_ptr<host_compiler> made, host_compiler::create(h));
  return std::shared_ptr<kernel_compiler>(std::move(made));
}

expected<std::shared_ptr<kernel_compiler>> make_nvrtc_compiler(const node_options& o, const std::string& architecture) {
  const auto& c = o.gpu_settings.compiler;
  nvrtc_compiler_options n;
  n.architecture = architecture;
  n.worker = o.worker;
  n.cache_folder = o.data + "/cache";
  n.cache_limit_bytes = c.cache_mb << 20;
  n.time_limit_s = c.time_limit_s;
  n.memory_limit_bytes = c.memory_limit_mb << 20;
  n.processes = o.compile_workers;
  n.allow_weak_confinement = o.gpu_settings.device.allow_weak_confinement;
  CUDAL1_TRY(std::unique_ptr<nvrtc_compiler> made, nvrtc_compiler::create(n));
  return std::shared_ptr<kernel_compiler>(std::move(made));
}

}  // namespace

expected<std::map<std::string, std::shared_ptr<kernel_compiler>>> make_compilers(node_options& o) {
  std::map<std::string, std::shared_ptr<kernel_compiler>> compilers;
  std::map<std::string, error> problems;
  for (auto& device : o.devices) {
    const auto& architecture = device.architecture;
    if (!compilers.contains(architecture) && !problems.contains(architecture)) {
      auto made = architecture == "cpu" ? make_host_compiler(o) : make_nvrtc_compiler(o, architecture);
      if (made) {
        spdlog::info("compiler for {}: {}", architecture, (*made)->describe());
        compilers[architecture] = std::move(*made);
      } else {
        problems[architecture] = std::move(made).error();
      }
    }
    if (const auto found = problems.find(architecture); found != problems.end())
      device.problem = "there is no compiler for it: " + found->second.message;
  }
  if (compilers.empty()) return tl::unexpected<error>(problems.begin()->second);
  return compilers;
}

}  // namespace cudal1
