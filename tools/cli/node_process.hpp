// The node that a command talks to: the one that runs on the data folder, or one that is started for it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "actors/client.hpp"

namespace cudal1::cli {

// Flags of the commands that may start a node; they are handed on to it.
struct node_flags {
  std::string config;                 // --config FILE
  std::vector<std::string> settings;  // --set section.key=value
  std::string device;                 // "" is the node's default
  bool resume = true;                 // go on with what ran when the last node died
  double start_limit_s = 120;
};
void add_node_flags(CLI::App& command, node_flags& flags);

struct connected_node {
  node_client client;
  node_status status;
  bool started = false;  // by us
};

// The devices that a command means: those that were named, else the first GPU, else cpu. errc::invalid_argument with
// the devices there are where the node has not all that were named, errc::infrastructure where one of them does not
// work.
expected<std::vector<device_report>> choose_devices(const node_status& status, const std::string& wanted);
// The first of them.
expected<device_report> choose_device(const node_status& status, const std::string& wanted);
// "cuda:0" and so on.
std::vector<std::string> names_of(const std::vector<device_report>& devices);

// Asks a running node who it is. errc::not_found where none runs.
expected<connected_node> connect_to_node(const std::string& data);

// The same, and starts cudal1-node where none runs; it stays behind in a session of its own, with its log in
// DATA/node.log, and leaves when it is idle. `progress` is told what is being waited for. errc::cancelled as soon as
// `wake_fd` can be read. A node that does not come up is an error with the end of its log: errc::refused where the
// system refuses a required confinement, errc::invalid_argument for a flag or setting, else errc::infrastructure.
expected<connected_node> connect_or_start(const std::string& data, const node_flags& flags,
                                          const std::function<void(const std::string&)>& progress, int wake_fd = -1);

// cudal1-node or cudal1-worker: beside this program.
expected<std::string> find_sibling(const std::string& name);

}  // namespace cudal1::cli
