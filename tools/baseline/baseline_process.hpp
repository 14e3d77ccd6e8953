// The Python process that measures PyTorch (tools/python/baseline.py): starts it, sends requests, enforces timeouts,
// and restarts it after a crash or a hang. To be used by one thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>
#include <sys/types.h>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1::cli {

// One line of its standard input; baseline.py documents it.
struct baseline_request {
  std::string task, source;  // name, for messages; path of the Python file
  uint64_t seed = 0;
  std::vector<std::string> kinds;
  double seconds = 1;  // measuring time of each kind; more if least_samples take longer
  int64_t least_samples = 10;
  double prepare_seconds = 120;  // timeout of each kind's compilation, capture and warm-up
  int64_t flush_bytes = 0;       // 0: by the size of the device's cache
  int64_t threads = 1;           // on cpu
  std::vector<int> cores;        // for timed calls (on a GPU, one at a time); empty: any
  double best_pace_us = 0;       // kind_times::pace_us of the host at its fastest; 0: unknown
};
BOOST_DESCRIBE_STRUCT(baseline_request, (),
                      (task, source, seed, kinds, seconds, least_samples, prepare_seconds, flush_bytes, threads, cores,
                       best_pace_us))

// The times of one kind, in microseconds but for prepare_s.
struct kind_times {
  std::string kind, problem;  // `problem`: why there are no times
  std::vector<double> call_us, device_us;
  double prepare_s = 0;
  double pace_us = 0;         // call time of known operators less their device time: how fast the host was
  double python_us = 0;       // what a call from Python takes in addition to its device time, at that pace
  int64_t dropped_calls = 0;  // calls that do not count, because the host was slow
  std::string check;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(kind_times, (),
                      (kind, problem, call_us, device_us, prepare_s, pace_us, python_us, dropped_calls, check, notes))

struct baseline_process_options {
  std::string python, script, device;
  std::string log;   // file that its standard error is appended to
  int wake_fd = -1;  // ends a wait with errc::cancelled once it is readable
  std::chrono::milliseconds start_limit{std::chrono::minutes(3)};
  std::chrono::milliseconds grace{std::chrono::seconds(10)};  // added to the timeouts of a request
};

class baseline_process {
 public:
  explicit baseline_process(baseline_process_options options) : options_(std::move(options)) {}
  baseline_process(const baseline_process&) = delete;
  baseline_process& operator=(const baseline_process&) = delete;
  ~baseline_process() { end(); }

  // The times of each kind of the request, in any order. A kind that crashed the process or timed out has that as its
  // problem; a new process then measures the others. errc::cancelled if interrupted; errc::infrastructure if no process
  // can be started.
  expected<std::vector<kind_times>> measure(const baseline_request& r);

  // "torch 2.11.0+cu130, Python 3.11.2"; "" before the first measure().
  const std::string& torch() const { return torch_; }
  int pid() const { return pid_; }

 private:
  // Why a request ended early, the kinds that the process was measuring, and its current step.
  struct interruption {
    std::string problem;
    std::vector<std::string> kinds;
    std::string doing;
  };
  expected<void> start();
  void end();
  expected<void> send(const std::string& line);
  // The next line; nullopt at the end of its output; errc::timeout, errc::cancelled.
  expected<std::optional<std::string>> receive(std::chrono::steady_clock::time_point until);
  // Sends one request and adds its results to `answers`; an interruption if it did not finish.
  expected<std::optional<interruption>> exchange(const baseline_request& r, std::vector<kind_times>& answers);
  std::string how_it_ended();

  baseline_process_options options_;
  pid_t pid_ = -1;
  unique_fd link_;  // its standard input and output
  std::string bytes_, torch_;
};

}  // namespace cudal1::cli
