// Checks an exported file as KernelBench's evaluator does: runtime/evaluate_file.py in a process of its own (confined
// on cpu) with time limits, on one device. Whatever the file does there, a crash or a hang included, is a failed check.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>

#include "config/base/error.hpp"
#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "tools/kernelbench/file_check_result.hpp"
#include "tools/kernelbench/kept_checks.hpp"

namespace cudal1::cli {

struct checked_file {
  std::string task, variant;    // ids
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
    int stop_fd = -1;            // ends builds and checks as soon as it is readable
  };
  // errc::infrastructure with what to do where Python has no torch.
  static expected<std::unique_ptr<file_checker>> create(const options& o);
  ~file_checker();

  // Once for each device, before check(). errc::infrastructure with what to do where the device, nvcc or a C++ compiler
  // is missing; errc::refused where an experiment uses the device.
  expected<void> prepare(const std::string& device);

  // So many threads keep the machine busy: some build ahead of those that check.
  static std::size_t useful_threads();

  // May be called from several threads: as many files are built at once as there are cores, and on a GPU half as many
  // compared, step by step; between their steps one file at a time is timed on a device, where there are eight cores a
  // device on two of its own. What was found is kept in the data folder, and taken from there where file, problem,
  // evaluate_file.py, PyTorch, compilers and device are the same. Errors are of the machine (no process can be started
  // or confined), or errc::cancelled.
  expected<file_check_result> check(const checked_file& file);

 private:
  struct held_device;
  explicit file_checker(options o, std::string python);
  std::string key_of(const checked_file& file) const;
  expected<file_check_result> build_and_check(const checked_file& file);

  options options_;
  std::string python_;
  kept_checks kept_;
  std::counting_semaphore<> builds_, checks_;
  // Has the locks by which checks on a GPU take turns, or those on all GPUs where timed calls are made on the same
  // cores.
  std::optional<private_folder> turns_;
  std::map<std::string, std::unique_ptr<held_device>> devices_;
};

}  // namespace cudal1::cli
