// Finds the node that runs on a data folder, or starts one; or reaches the coordinator of another machine.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "actors/clients/client.hpp"
#include "config/configuration.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

// Flags of the commands that may start a node; they are passed on to it.
struct node_flags {
  std::string config;                 // --config FILE
  std::vector<std::string> settings;  // --set section.key=value
  // Keys ("search.policy") that the command sends with its request, so that a running node obeys them, too.
  std::vector<std::string> sent_with_request;
  std::string device;  // "" is the node's default
  bool resume = true;  // the experiments that ran when the last node ended
  double start_limit_s = 120;
};
void add_node_flags(CLI::App& command, node_flags& flags);
// --precision, for verification.tolerance; behind add_node_flags.
void add_precision_flag(CLI::App& command, node_flags& flags);
// errc::invalid_argument for a --set that names no setting or has a wrong value.
expected<void> check_setting_names(const node_flags& flags);
// The configuration of a node that is started with these flags, in this environment.
expected<configuration> configuration_of(const node_flags& flags, const std::string& data);

struct connected_node {
  node_client client;
  node_status status;
  bool started = false;  // by connect_or_start; else it was running
};

// The node's devices that `wanted` names; if it is "", the first GPU, else cpu. errc::invalid_argument, listing the
// node's devices, if it lacks one of them; errc::infrastructure if one of them does not work.
expected<std::vector<device_report>> choose_devices(const node_status& status, const std::string& wanted);
// The first device that choose_devices finds.
expected<device_report> choose_device(const node_status& status, const std::string& wanted);
// "cuda:0" and so on.
std::vector<std::string> names_of(const std::vector<device_report>& devices);

// Connects to a running node. errc::not_found if none runs on the data folder.
expected<node_client> connect_client(const context& c);
// Connects to a running node and gets its status.
expected<connected_node> connect_to_node(const context& c);
// Waits, some seconds at most, until the node has the device again from another program that used it. A device that
// does not come back is the next request's error.
void wait_for_device(const context& c, const std::string& device);

// Connects as connect_to_node() does, but starts cudal1-node if none runs on the data folder (never on another
// machine), in a session of its own: it logs to DATA/node.log, may outlive this process and exits when idle. `progress`
// is called with a description of each wait. errc::cancelled once `wake_fd` is readable. If the node does not start,
// the error has the end of its log: errc::refused if the system lacks a required confinement, errc::invalid_argument
// for a flag or setting, also one that the node that runs already does not have, else errc::infrastructure.
expected<connected_node> connect_or_start(const context& c, const node_flags& flags,
                                          const std::function<void(const std::string&)>& progress, int wake_fd = -1,
                                          const std::vector<std::string>& more = {});

// The path of another of our programs (cudal1-node, cudal1-worker), which must be in this program's folder.
expected<std::string> find_sibling(const std::string& name);

}  // namespace cudal1::cli
