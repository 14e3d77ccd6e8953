// The kinds of device that answer from stored verdicts: `replay-K` for each kind K that measures. A program that names
// devices has one replay_devices object, from the start of main on.
//
// Users write `replay` and `replay:N`, which stand for the kind whose verdicts the source has. The full name goes into
// every record, so that what was replayed says of which kind it is, whatever the configuration is later.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/device/device_type.hpp"
#include "store/replay/replay_source.hpp"

namespace cudal1 {

class replay_device_type;

class replay_devices {
 public:
  // Registers the kinds; they have no devices yet.
  replay_devices();
  ~replay_devices();
  replay_devices(const replay_devices&) = delete;
  replay_devices& operator=(const replay_devices&) = delete;

  // From now on the source's kind has as many devices as its options say. To be called before devices are listed or
  // started: it is not thread-safe.
  void use(const std::shared_ptr<replay_source>& source);

 private:
  std::vector<replay_device_type*> types_;  // owned by the registrations
  std::vector<std::unique_ptr<device_registration>> registrations_;
};

// "replay-cpu"
std::string replay_kind_of(std::string_view kind);
// Whether a list of devices, as in "replay", "replay:1" or "replay-cpu:0,replay-cpu:1", names one that replays.
bool names_replay(std::string_view devices);
// Such a list with full names: "replay:1" becomes "replay-cpu:1" if `kind` is "cpu".
std::string with_replayed_kind(std::string_view devices, std::string_view kind);

}  // namespace cudal1
