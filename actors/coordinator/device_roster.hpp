// The devices of all machines: which exist, which work, and which an experiment may use. Plain logic, no actor. Not
// thread-safe: for the coordinator's actor only.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/agent/machine_devices.hpp"
#include "actors/messages/protocol.hpp"
#include "config/base/error.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1 {

struct device_order {
  bool operator()(const std::string& a, const std::string& b) const { return comes_before(a, b); }
};

class device_roster {
 public:
  enum class state { starting, ready, away, given_up };  // away: its machine is
  struct entry {
    node_device what;
    state now = state::starting;
    device_report report;  // of the last start
    error problem = {};    // of the last start that failed, or why it is away; "" if none did
    bool usable() const { return now != state::given_up; }
    bool here() const { return usable() && now != state::away; }
  };
  using entries = std::map<std::string, entry, device_order>;

  // A device that was added before starts again. One that does not measure is only kept by its name.
  void add(const node_device& device, device_role role = device_role::measure);
  // Its machine is cut off, or has left; then it is added again.
  void away(const std::string& device, const error& problem);
  // For those below, the device must have been added.
  void restarted(const std::string& device);
  void started(const std::string& device, const device_report& report);
  void failed(const std::string& device, const error& problem);  // it is tried again
  void give_up(const std::string& device, const error& problem);

  const entries& all() const { return entries_; }
  // The devices with another role than to measure.
  const std::map<std::string, reserved_device, device_order>& reserved() const { return reserved_; }
  const entry& at(const std::string& device) const { return entries_.at(device); }
  bool has(const std::string& device) const { return entries_.contains(device); }
  bool is_ready(const std::string& device) const;
  // The names of a machine's devices ("": of the coordinator's).
  std::vector<std::string> of_machine(const std::string& machine) const;
  // Whether any of a list of devices ("cpu", "cuda", "cuda:0,cuda:1") may be used, now or once it has started or its
  // machine is back.
  bool any_usable(const std::string& devices) const;
  // Whether every device has started or was given up.
  bool settled() const;
  // An error with the first device's problem, if none is ready.
  expected<void> any_ready() const;
  // The list of devices that an experiment asks for: all exist and measure, and at least one is usable. "" chooses the
  // first usable one. The name of a kind stays, for those of machines that join later.
  expected<std::string> choose(const std::string& wanted) const;
  // The models of those of a list that may be used, now or later, in the order of the devices.
  std::vector<std::string> models_of(const std::string& devices) const;
  // The first device of a list that choose() returned, if possible one that is ready: for what is the same for all.
  const entry& first_of(const std::string& devices) const;
  // The names of the devices of a list that are of a model; "" if none is.
  std::string of_model(const std::string& devices, const std::string& model) const;
  // How many of a list are here, and why none is ("" if one is, or if the list is empty).
  std::size_t count_here(const std::string& devices) const;
  std::string why_none_is_here(const std::string& devices) const;

 private:
  expected<void> check_measures(const std::string& name) const;

  entries entries_;
  mutable std::map<std::pair<std::string, std::string>, std::string> of_model_;  // what of_model() found since add()
  std::map<std::string, reserved_device, device_order> reserved_;
};

}  // namespace cudal1
