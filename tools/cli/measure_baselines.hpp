// Measuring PyTorch beside the best variants, for `cudal1 baseline` and `cudal1 run --against`: the device is held,
// each task's source is measured by a process of Python, its best variant again by the node, and both are kept.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "actors/client.hpp"
#include "sandbox/program/task.hpp"
#include "store/store.hpp"
#include "tools/cli/baseline_process.hpp"

namespace cudal1::cli {

struct baseline_wish {
  std::vector<task> tasks;
  std::vector<std::string> kinds;
  std::string device;                         // one: "cpu", "cuda:0"
  std::string experiment;                     // whose best variants are measured beside; "" is all
  bool again = false;                         // what is stored already as well
  bool variants = true;                       // measure the best variants beside
  double time_limit_s = 0;                    // no task is begun after it; 0: none
  double seconds = 1, prepare_seconds = 120;  // as in baseline_request
};

// What came of one task.
struct measured_task {
  std::string task, name;                // id, name
  std::string skipped;                   // why nothing was measured; "" where something was
  bool fresh = false;                    // all was stored already
  std::vector<baseline_record> records;  // measured now, in the order of the kinds
  std::string variant_problem;           // why its best variant has no time beside
};
BOOST_DESCRIBE_STRUCT(measured_task, (), (task, name, skipped, fresh, records, variant_problem))

struct measured_baselines {
  environment where;
  std::string torch;  // "" where nothing had to be measured
  std::vector<measured_task> tasks;
  int64_t left = 0;  // not begun when the time was up or somebody interrupted
  bool interrupted = false;
};
BOOST_DESCRIBE_STRUCT(measured_baselines, (), (where, torch, tasks, left, interrupted))

struct baseline_observer {
  std::function<void(const std::string&)> doing;  // "softmax: eager, graph", before it
  std::function<void(const measured_task&)> finished;
};

// `data`: the data folder, with the sources in its blobs. The client's connection holds the device from then on.
// errc::refused where an experiment uses the device.
expected<measured_baselines> measure_baselines(const std::string& data, node_client& client, const baseline_wish& wish,
                                               const baseline_observer& observer, int wake_fd);

}  // namespace cudal1::cli
