// PyTorch's own times of a task, measured by a process of Python (tools/python/baseline.py) on the device that the
// task's variants are measured on: what people compare with, beside the score's own reference.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation.hpp"

namespace cudal1 {

// How PyTorch runs the module, always in train mode and without gradients, as KernelBench does: as it ships; with
// torch.backends.cudnn.benchmark; torch.compile; torch.compile(mode="reduce-overhead"); a CUDA graph whose inputs are
// copied in for each call.
inline constexpr std::array<std::string_view, 5> baseline_kinds = {"eager", "cudnn", "compile", "reduce-overhead",
                                                                   "graph"};

// One kind of one task, in one environment. Times are microseconds.
struct baseline_record {
  std::string task, kind;      // task id; one of baseline_kinds
  std::string environment_id;  // of the device, as its verdicts have it
  std::string torch;           // "torch 2.11.0+cu130, Python 3.11.2"
  std::string source;          // "<SHA-256>.py" that was measured
  uint64_t seed = 0;           // of weights and inputs
  std::string problem;         // why there is no time; "" where there is one
  double call_us = 0;          // median of call_samples: host clock round the call and its synchronisation
  interval call_interval;      // 95%, of that median
  double device_us = 0;        // median of device_samples: between two events, the host's gaps hidden; 0: no such clock
  interval device_interval;
  double prepare_s = 0;  // compilation, capture, warm-up
  // How fast the host was: what a call of known operators took from Python, beside the device's time.
  double pace_us = 0;
  // What a call from Python takes beside the device's time, at the least: where all its work is one CUDA graph. Our own
  // calls take less, which a variant is not credited with.
  double python_us = 0;
  int64_t dropped_calls = 0;  // beside call_samples, of rows in which the host was slower than at its best
  std::string check;          // its result against eager's: "" is alike within 1e-2, else a sentence
  std::vector<std::string> notes;
  std::vector<double> call_samples, device_samples;  // raw, in the order they were taken, those that count
  // The task's best confirmed variant and the task's own program, measured again with fresh pairs right after: a ratio
  // to call_us is one of the same minute. "" and 0 where nothing was.
  std::string variant;
  double program_us = 0, variant_us = 0;
  double program_device_us = 0, variant_device_us = 0;
  interval variant_interval;  // 95%, of variant_us, by the width of the score's
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
