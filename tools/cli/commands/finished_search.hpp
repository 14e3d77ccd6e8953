// What `cudal1 run` does when a search has ended: measures the base of its speedups, and prints the tables.
#pragma once

#include <string>

#include "actors/messages/protocol.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/progress.hpp"

namespace cudal1::cli {

struct finished_search {
  std::string experiment;  // that leads
  std::string against;     // the base
  bool json = false;
};

// What speedups are relative to where --against is not given: what the author of a model compares with.
std::string base_of(const std::vector<task>& tasks);
// The tasks of an experiment.
expected<std::vector<task>> tasks_of(store& s, const experiment_record& e);
// Measures PyTorch and the best variants just found, on their devices. What cannot be measured is noted, and is missing
// in the table. False if interrupted.
expected<bool> measure_base(const finished_search& f, const node_status& node, const context& c, run_view& view,
                            int wake_fd);
// A table for each model of its devices.
expected<void> print_result(const finished_search& f, const node_status& node, const context& c);

}  // namespace cudal1::cli
