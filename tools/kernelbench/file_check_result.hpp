// What a check of an exported file finds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "config/base/json.hpp"

namespace cudal1::cli {

// Eager against itself under another algorithm. `excess`: the largest difference over what allclose at 1e-4 permits.
struct eager_noise {
  std::string algorithm;
  double difference = 0, excess = 0;
};
BOOST_DESCRIBE_STRUCT(eager_noise, (), (algorithm, difference, excess))

// What evaluate_file.py found. Without `problem` the file is right.
struct file_check_result {
  std::string problem;  // one sentence
  std::string device, hardware, torch;
  int64_t draws = 0, passed_draws = 0;  // at KernelBench's 1e-4, or 1e-2 for half types
  bool strict = false;                  // all draws and calls are within it: KernelBench accepts it
  double difference = 0, excess = 0, row_excess = 0, other_weights_excess = 0;
  double tolerance_factor = 1;  // above 1: eager differs from itself by more than that, and so may the file
  std::vector<eager_noise> noise;
  std::vector<std::string> ill_conditioned;  // the algorithms under which eager fails 1e-4
  std::vector<std::string> notes;
  double eager_us = 0, exported_us = 0, speedup = 0;  // medians of calls from Python; 0: not timed
  double eager_device_us = 0, exported_device_us = 0;
  std::optional<json> runtime_stats, ref_runtime_stats;  // by KernelBench's method, in ms; on a GPU only
  bool kept = false;                                     // found by an earlier check; no part of the record
};
BOOST_DESCRIBE_STRUCT(file_check_result, (),
                      (problem, device, hardware, torch, draws, passed_draws, strict, difference, excess, row_excess,
                       other_weights_excess, tolerance_factor, noise, ill_conditioned, notes, eager_us, exported_us,
                       speedup, eager_device_us, exported_device_us, runtime_stats, ref_runtime_stats))

}  // namespace cudal1::cli
