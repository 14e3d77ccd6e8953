// PyTorch's own times of a task, measured by a Python process (tools/python/baseline.py) on the same device as the
// task's variants: baselines for people to compare with, besides the reference of the score.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// How PyTorch runs the module, always in train mode and without gradients, as KernelBench does: eager; eager with
// torch.backends.cudnn.benchmark; torch.compile; torch.compile(mode="reduce-overhead"), and
// mode="max-autotune"; a CUDA graph whose inputs are copied in for each call.
inline constexpr std::array<std::string_view, 6> baseline_kinds = {"eager",           "cudnn",        "compile",
                                                                   "reduce-overhead", "max-autotune", "graph"};

// One kind of one task, in one environment. Times are microseconds.
struct baseline_record {
  std::string task, kind;      // task id; one of baseline_kinds
  std::string environment_id;  // of the device, as in its verdicts
  std::string torch;           // "torch 2.11.0+cu130, Python 3.11.2"
  std::string source;          // "<SHA-256>.py", the module that was measured; ".json": the task's own steps
  uint64_t seed = 0;           // of weights and inputs
  std::string problem;         // why there is no time; "" if there is one
  double call_us = 0;          // median of call_samples: host clock around the call and its synchronisation
  interval call_interval;      // 95%, of that median
  double device_us = 0;        // median of device_samples: between two events, without host gaps; 0: no such clock
  interval device_interval;
  double prepare_s = 0;  // compilation, capture, warm-up
  // Speed of the host: host time of a call of known operators from Python, beyond the device time.
  double pace_us = 0;
  // Least host time of a call from Python, beyond the device time: that of a call whose work is one CUDA graph.
  // Variants are called at less cost, which is not credited to them.
  double python_us = 0;
  int64_t dropped_calls = 0;  // not in call_samples: of rows in which the host was slower than its best
  std::string check;          // its result against eager's: "" if equal within 1e-2, else a sentence
  std::vector<std::string> notes;
  std::vector<double> call_samples, device_samples;  // raw, in order, without dropped ones
  // The task's best confirmed variant and the task's own program, measured again with fresh pairs right afterwards, so
  // that ratios to call_us compare times of the same minute. "" and 0 if they were not measured.
  std::string variant;
  double program_us = 0, variant_us = 0;
  double program_device_us = 0, variant_device_us = 0;
  interval variant_interval;  // 95%, of variant_us, with the relative width of the score's
  double program_ratio = 0;   // program / variant: the score of that verdict
  interval program_ratio_interval;
  int64_t time_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(baseline_record, (),
                      (task, kind, environment_id, torch, source, seed, problem, call_us, call_interval, device_us,
                       device_interval, prepare_s, pace_us, python_us, dropped_calls, check, notes, call_samples,
                       device_samples, variant, program_us, variant_us, program_device_us, variant_device_us,
                       variant_interval, program_ratio, program_ratio_interval, time_unix_ms))

}  // namespace cudal1
