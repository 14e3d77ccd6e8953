// The Python process that measures PyTorch (tools/python/baseline.py): started, asked, watched, and started again where
// it dies or hangs. Belongs to one thread.
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

// One line of its standard input, as its own text explains.
struct baseline_request {
  std::string task, source;  // name, for people; path of the Python file
  uint64_t seed = 0;
  std::vector<std::string> kinds;
  double seconds = 1;  // of measuring, each kind; more where ten samples take longer
  int64_t least_samples = 10;
  double prepare_seconds = 120;  // of each kind's compilation, capture and warm-up
  int64_t flush_bytes = 0;       // 0: by the size of the device's cache
  int64_t threads = 1;           // on cpu
  std::vector<int> cores;        // to time on (on a GPU on one at a time); empty: any
  double best_pace_us = 0;       // kind_times::pace_us where the host was at its best; 0: unknown
};
BOOST_DESCRIBE_STRUCT(baseline_request, (),
                      (task, source, seed, kinds, seconds, least_samples, prepare_seconds, flush_bytes, threads, cores,
                       best_pace_us))

// What came of one kind. Microseconds.
struct kind_times {
  std::string kind, problem;  // `problem`: why there are no times
  std::vector<double> call_us, device_us;
  double prepare_s = 0;
  double pace_us = 0;         // what a call of known operators took beside the device's time: how fast the host was
  double python_us = 0;       // what a call from Python takes beside the device's time, at that pace
  int64_t dropped_calls = 0;  // in which the host was slower than at its best
  std::string check;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(kind_times, (),
                      (kind, problem, call_us, device_us, prepare_s, pace_us, python_us, dropped_calls, check, notes))

struct baseline_process_options {
  std::string python, script, device;
  std::string log;   // file that its standard error is appended to
  int wake_fd = -1;  // ends a wait with errc::cancelled once it can be read
  std::chrono::milliseconds start_limit{std::chrono::minutes(3)};
  std::chrono::milliseconds grace{std::chrono::seconds(10)};  // beyond what it asked for
};

class baseline_process {
 public:
  explicit baseline_process(baseline_process_options options) : options_(std::move(options)) {}
  baseline_process(const baseline_process&) = delete;
  baseline_process& operator=(const baseline_process&) = delete;
  ~baseline_process() { end(); }

  // An answer for each kind of the request, in no order. A kind in which the process died or did not end has that as
  // its problem, and the others are measured by a fresh one. errc::cancelled where it was interrupted;
  // errc::infrastructure where no process can be started.
  expected<std::vector<kind_times>> measure(const baseline_request& r);

  // "torch 2.11.0+cu130, Python 3.11.2"; "" before the first measure().
  const std::string& torch() const { return torch_; }
  int pid() const { return pid_; }

 private:
  // Why a request ended before all was answered, and what the process was at.
  struct interruption {
    std::string problem;
    std::vector<std::string> kinds;
    std::string doing;
  };
  expected<void> start();
  void end();
  expected<void> send(const std::string& line);
  // The next line; nothing at the end of its output; errc::timeout, errc::cancelled.
  expected<std::optional<std::string>> receive(std::chrono::steady_clock::time_point until);
  // Adds the answers of one request; an interruption where it was not finished.
  expected<std::optional<interruption>> exchange(const baseline_request& r, std::vector<kind_times>& answers);
  std::string how_it_ended();

  baseline_process_options options_;
  pid_t pid_ = -1;
  unique_fd link_;  // its standard input and output
  std::string bytes_, torch_;
};

}  // namespace cudal1::cli
