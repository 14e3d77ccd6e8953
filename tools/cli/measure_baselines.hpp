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

// What is known before: "" and 0 where nothing is.
struct known_best {
  std::string environment_id, variant;  // where we are; the present best
  double pace_us = 0;                   // baseline_record::pace_us where the host was at its best
  double program_us = 0;                // the call time of the task's own program there
};

// The kinds of that list that have to be measured: those without a record in this environment, and of those that cost
// little to measure what was measured beside another variant than the present best, or on a host that was slower than
// it can be, where that shows.
std::vector<std::string> missing_kinds(const std::vector<baseline_record>& records,
                                       const std::vector<std::string>& kinds, const known_best& best);

// How many times slower than at its best the host was in this evaluation, by the call times of both programs. At least
// one of the best is known, or it is 1.
double slower_than_best(const verdict& v, double best_program_us, double best_variant_us);

// What the host kept for a tenth of the time; 0 of nothing. The least of all is luck.
double lowest_tenth(std::vector<double> values);

}  // namespace cudal1::cli
