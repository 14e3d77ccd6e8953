// The kind of device `cpu`: this machine's processor.
#include <algorithm>

#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/cpu/session/cpu_session.hpp"
#include "sandbox/device/device_type.hpp"
#include "sandbox/isolation/machine_info.hpp"

namespace cudal1 {
namespace {

class cpu_device_type final : public device_type {
 public:
  const device_traits& traits() const override {
    static const device_traits t{
        .kind = "cpu",
        .noun = "cpu",
        .target = "cpu",
        .profile = "cpu",
        .worker = "cudal1-worker",
        .remark = "Timings on cpu are real timings of this processor; they say nothing about a GPU."};
    return t;
  }

  expected<std::vector<found_device>> discover() const override {
    return std::vector{found_device{.name = "cpu", .architecture = "cpu", .model = processor_model()}};
  }

  core_request cores_for(const found_device& device, const device_options& options) const override {
    const int64_t threads = std::max<int64_t>(options.threads, 1);
    return {device.name, threads, threads, {}, options.timing_core};
  }

  expected<std::shared_ptr<kernel_compiler>> make_compiler(const compiler_setup& setup) const override {
    host_compiler_options o;
    o.compiler = setup.options.command;
    o.cache_folder = setup.cache_folder;
    o.cache_limit_bytes = setup.options.cache_mb << 20;
    o.time_limit_s = setup.options.time_limit_s;
    o.memory_limit_bytes = setup.options.memory_limit_mb << 20;
    o.processes = setup.processes;
    o.allow_weak_confinement = setup.allow_weak_confinement;
    CUDAL1_TRY(std::shared_ptr<kernel_compiler> made, host_compiler::create(o));
    return made;
  }

  expected<std::unique_ptr<device_session>> start_session(const session_options& options) const override {
    return start_cpu_session(options);
  }
};

const device_registration registration{std::make_unique<cpu_device_type>()};

}  // namespace
}  // namespace cudal1
