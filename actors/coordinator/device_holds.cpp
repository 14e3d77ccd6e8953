#include "actors/coordinator/device_holds.hpp"

#include <algorithm>

#include "sandbox/device/device_names.hpp"

namespace cudal1 {

uint64_t device_holds::hold(const std::string& device) {
  devices_[++last_] = device;
  return last_;
}

std::optional<std::string> device_holds::release(uint64_t number) {
  auto held = devices_.extract(number);
  if (held.empty()) return std::nullopt;
  return std::move(held.mapped());
}

std::optional<std::string> device_holds::device_of(uint64_t number) const {
  const auto held = devices_.find(number);
  return held == devices_.end() ? std::nullopt : std::optional<std::string>(held->second);
}

bool device_holds::is_held(const std::string& device) const {
  return std::ranges::any_of(devices_, [&](const auto& h) { return h.second == device; });
}

expected<void> device_holds::check_free(const std::string& devices, uint64_t own) const {
  for (const auto& [number, device] : devices_)
    if (number != own && names_device(devices, device))
      return fail(errc::refused, "device {} is held by `cudal1 baseline`, which measures on it; try again when it ends",
                  device);
  return {};
}

}  // namespace cudal1
