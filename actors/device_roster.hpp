// The devices of a node: which exist, which work, and which an experiment may use. Plain logic, no actor. Not
// thread-safe: for the node's actor only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/protocol.hpp"
#include "config/base/error.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1 {

struct node_device : found_device {
  std::string problem;  // why it cannot be used at all, if there is no compiler for it
};

struct device_order {
  bool operator()(const std::string& a, const std::string& b) const { return comes_before(a, b); }
};

class device_roster {
 public:
  enum class state { starting, ready, given_up };
  struct entry {
    node_device what;
    state now = state::starting;
    device_report report;  // of the last start
    error problem = {};    // of the last start that failed; "" if none did
    bool usable() const { return now != state::given_up; }
  };
  using entries = std::map<std::string, entry, device_order>;

  // The device must have been added.
  void add(const node_device& device);
  void restarted(const std::string& device);
  void started(const std::string& device, const device_report& report);
  void failed(const std::string& device, const error& problem);  // it is tried again
  void give_up(const std::string& device, const error& problem);

  const entries& all() const { return entries_; }
  const entry& at(const std::string& device) const { return entries_.at(device); }
  bool is_ready(const std::string& device) const;
  // Whether any of a list of devices ("cpu", "cuda", "cuda:0,cuda:1") may be used, now or once it has started.
  bool any_usable(const std::string& devices) const;
  // Whether every device has started or was given up.
  bool settled() const;
  // An error with the first device's problem, if none is ready.
  expected<void> any_ready() const;
  // The names of the devices that an experiment asks for: all exist, they are of one model, and at least one is usable.
  // "" chooses the first usable one.
  expected<std::string> choose(const std::string& wanted) const;
  // The first device of a list that choose() returned, for what is the same for all of them.
  const entry& first_of(const std::string& devices) const;
  std::size_t count(const std::string& devices) const;

 private:
  expected<void> check_one_model(const std::vector<std::string>& chosen) const;

  entries entries_;
};

}  // namespace cudal1
