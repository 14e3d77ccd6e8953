// Checks an exported file as KernelBench's evaluator does: runtime/evaluate_file.py in a process of its own (confined
// on cpu) with time limits, on one device. Whatever the file does there, a crash or a hang included, is a failed check.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
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
};
BOOST_DESCRIBE_STRUCT(file_check_result, (),
                      (problem, device, hardware, torch, draws, passed_draws, strict, difference, excess, row_excess,
                       other_weights_excess, tolerance_factor, noise, ill_conditioned, notes, eager_us, exported_us,
                       speedup, eager_device_us, exported_device_us, runtime_stats, ref_runtime_stats))

struct checked_file {
  std::string name, text;       // of the file
  std::string problem;          // the problem's own source
  std::string device;           // "cpu", "cuda:0"
  bool is_kernelbench = false;  // KernelBench casts a problem's inputs to float32
  double pace_us = 0;           // of the host when eager was measured; 0: unknown
};

class file_checker {
 public:
  struct options {
    std::string data = {};  // the data folder: a node that runs there gives the devices to us meanwhile
    double build_limit_s = 600;
    double check_limit_s = 180;  // as KernelBench's scripts
    double timed_s = 0.5;        // a side
  };
  // errc::infrastructure with what to do where Python has no torch.
  static expected<std::unique_ptr<file_checker>> create(const options& o);
  ~file_checker();

  // Once for each device, before check(). errc::infrastructure with what to do where the device, nvcc or a C++ compiler
  // is missing; errc::refused where an experiment uses the device.
  expected<void> prepare(const std::string& device);

  // May be called from several threads: builds overlap, and on a GPU comparisons do; one file at a time is timed on a
  // device. Errors are of the machine only (no process can be started or confined).
  expected<file_check_result> check(const checked_file& file);

 private:
  struct held_device;
  explicit file_checker(options o, std::string python);

  options options_;
  std::string python_;
  std::map<std::string, std::unique_ptr<held_device>> devices_;
};

}  // namespace cudal1::cli
