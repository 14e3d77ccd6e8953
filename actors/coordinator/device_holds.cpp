#include "actors/coordinator/device_holds.hpp"

#include <algorithm>

#include "sandbox/device/device_names.hpp"

namespace cudal1 {

uint64_t device_holds::hold(const std::string& device, hold_use use) {
  entries_[++last_] = {device, use};
  return last_;
}

std::optional<std::string> device_holds::release(uint64_t number) {
  auto held = entries_.extract(number);
  if (held.empty()) return std::nullopt;
  return std::move(held.mapped().device);
}

std::optional<std::string> device_holds::device_of(uint64_t number) const {
  const auto held = entries_.find(number);
  return held == entries_.end() ? std::nullopt : std::optional<std::string>(held->second.device);
}

bool device_holds::is_held(const std::string& device) const {
  return is_held_for(device, hold_use::measure) || is_held_for(device, hold_use::compare);
}

bool device_holds::is_held_for(const std::string& device, hold_use use) const {
  return std::ranges::any_of(entries_, [&](const auto& h) { return h.second.device == device && h.second.use == use; });
}

expected<void> device_holds::check_free(const std::string& devices, uint64_t own) const {
  for (const auto& [number, held] : entries_)
    if (number != own && held.use == hold_use::measure && names_device(devices, held.device))
      return fail(errc::refused, "device {} is held by `cudal1 baseline`, which measures on it; try again when it ends",
                  held.device);
  return {};
}

}  // namespace cudal1
