#include "sandbox/cpu/session/machine.hpp"

#include <thread>

#include "sandbox/device/environment_id.hpp"
#include "sandbox/isolation/machine_info.hpp"

namespace cudal1 {

environment describe_machine(const std::string& device, const worker_settings& settings, const std::string& libraries) {
  environment e;
  e.device = device;
  e.model = processor_model();
  const std::string governor = frequency_governor();
  e.details = fmt::format("{} cores, flags {}, last-level cache {} KiB, {} timed threads, flush {} KiB, {}, Linux {}{}",
                          std::thread::hardware_concurrency(), processor_flags_hash(), last_level_cache_bytes() >> 10,
                          settings.threads, settings.flush_bytes >> 10, libraries, kernel_release(),
                          governor.empty() ? "" : ", governor " + governor);
  e.libraries = libraries;
  e.id = environment_id(e);
  return e;
}

}  // namespace cudal1
