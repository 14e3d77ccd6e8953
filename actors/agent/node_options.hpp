// The options and parts that a node is started with.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/agent/cores.hpp"
#include "actors/agent/machine_devices.hpp"
#include "actors/messages/baseline_times.hpp"
#include "config/configuration.hpp"
#include "sandbox/device/device_turns.hpp"
#include "sandbox/device/device_type.hpp"
#include "store/store.hpp"

namespace cudal1 {

inline std::chrono::milliseconds in_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

struct node_options {
  std::string data;                              // folder
  configuration settings;                        // of the node
  std::map<std::string, configuration> of_kind;  // of each kind of device: the same with other defaults
  std::vector<node_device> devices;              // that measure
  std::vector<node_device> policy_devices;       // that are reserved for the policy's models
  std::string worker;                            // path of cudal1-worker; "" finds it beside this program
  core_layout cores;
  int compile_workers = 1;
  std::string version;                   // of the program
  std::vector<std::string> environment;  // of the process, NAME=value: the keys of endpoints
  // Of devices that measure and also compute the policy's models.
  std::shared_ptr<device_turns> turns = std::make_shared<device_turns>();

  const configuration& settings_of(const std::string& device) const { return of_kind.at(traits_of(device).kind); }
  // With time to wait for that many other compilations.
  std::chrono::milliseconds compile_timeout(int others = 0) const {
    const double each_s = settings.compiler.time_limit_s + settings.compiler.first_limit_s;
    return (in_ms(each_s) + std::chrono::seconds(10)) * (others + 1);
  }
};

// What a node needs from its process.
struct node_setup {
  node_options options;
  std::shared_ptr<store> db;
  std::map<std::string, std::shared_ptr<kernel_compiler>> compilers;  // by architecture
  make_baseline_measurer make_baselines;
  // Called, from an actor's thread, when the node cannot continue: the process should end.
  std::function<void(const std::string&)> fatal;
};

}  // namespace cudal1
