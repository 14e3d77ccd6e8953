// The id of an environment.
#pragma once

#include <string>

#include "config/base/hash.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// As the machine that measures has it: without that machine's name in front of the device.
inline std::string environment_id(const environment& e) {
  return sha256_hex(name_on_machine(e.device) + "\n" + e.model + "\n" + e.details);
}

}  // namespace cudal1
