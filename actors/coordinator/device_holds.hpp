// Which client holds which device: until it releases the device, only its own experiments use it. Plain logic, no
// actor. Not thread-safe: for the node's actor only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

class device_holds {
 public:
  // Returns the number of the hold, never 0. The device must be free (check_free).
  uint64_t hold(const std::string& device);
  // The device of the hold; nothing if it had ended before.
  std::optional<std::string> release(uint64_t number);
  std::optional<std::string> device_of(uint64_t number) const;
  bool is_held(const std::string& device) const;
  // errc::refused if there is a hold other than `own` (0: none) of one of these devices.
  expected<void> check_free(const std::string& devices, uint64_t own) const;

 private:
  std::map<uint64_t, std::string> devices_;  // by hold
  uint64_t last_ = 0;
};

}  // namespace cudal1
