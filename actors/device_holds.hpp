// Which client measures on which device by itself: until it gives the device back, no experiment but its own uses it.
// Plain logic, no actor. Not thread-safe: the node's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

class device_holds {
 public:
  // The number of the hold, never 0. The device is free (check_free).
  uint64_t hold(const std::string& device);
  // The device that the hold was of; nothing where it ended before.
  std::optional<std::string> release(uint64_t number);
  std::optional<std::string> device_of(uint64_t number) const;
  bool is_held(const std::string& device) const;
  // errc::refused where another client than the one with the hold `own` (0: none) holds one of these devices.
  expected<void> check_free(const std::string& devices, uint64_t own) const;

 private:
  std::map<uint64_t, std::string> devices_;  // by hold
  uint64_t last_ = 0;
};

}  // namespace cudal1
