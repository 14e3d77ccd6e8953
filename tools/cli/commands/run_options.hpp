// What `cudal1 run` is asked for on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/command.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/kernelbench/model_import.hpp"

namespace cudal1::cli {

struct run_options {
  model_choice model;  // PyTorch models
  std::string folder;
  std::vector<std::string> names;
  std::string policy;
  std::optional<int64_t> evaluations;
  std::string time, device_time;
  uint64_t seed = 1;
  bool fresh = false;
  bool uncompared = false;  // search them, too
  std::vector<std::string> models;
  std::string replays;
  std::string priority = "normal";
  std::string device;
  std::string resume;
  std::string against;
  int64_t parts = 0;  // evaluations of each part; 0: tasks are searched as a whole
  node_flags node;
  bool json = false;
};

// What is searched, how, and when the search ends; which options go with which.
void add_run_options(CLI::App& command, run_options& o);
// Examples and exit codes, behind the options.
std::string footer_of_run();

}  // namespace cudal1::cli
