// Which client holds which device, and what for. Until a client that measures releases the device, only its own
// experiments use it; one that compares a task with its model lets others wait. Plain logic, no actor. Not thread-safe:
// for the node's actor only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

enum class hold_use { measure, compare };

class device_holds {
 public:
  // Returns the number of the hold, never 0. The device must not be held.
  uint64_t hold(const std::string& device, hold_use use);
  // The device of the hold; nothing if it had ended before.
  std::optional<std::string> release(uint64_t number);
  std::optional<std::string> device_of(uint64_t number) const;
  bool is_held(const std::string& device) const;
  bool is_held_for(const std::string& device, hold_use use) const;
  // errc::refused if a client measures on one of these devices with a hold other than `own` (0: none).
  expected<void> check_free(const std::string& devices, uint64_t own) const;

 private:
  struct entry {
    std::string device;
    hold_use use = hold_use::measure;
  };
  std::map<uint64_t, entry> entries_;  // by hold
  uint64_t last_ = 0;
};

}  // namespace cudal1
