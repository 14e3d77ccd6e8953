// What the Python process that measures PyTorch (tools/python/baseline.py) is asked, and what it answers; and the
// comparison of a model with its task, which such a process makes, too. The processes are started by tools/baseline.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

struct task;

// One line of its standard input; baseline.py documents it.
struct baseline_request {
  std::string task;  // name, for messages
  uint64_t seed = 0;
  std::vector<std::string> kinds;
  double seconds = 1;  // measuring time of each kind; more if least_samples take longer
  int64_t least_samples = 10;
  double prepare_seconds = 120;  // timeout of each kind's compilation, capture and warm-up
  double best_pace_us = 0;       // kind_times::pace_us of the host at its fastest; 0: unknown
  // Of the machine that measures, which sets them.
  std::string source;       // path of the Python file
  int64_t flush_bytes = 0;  // 0: by the size of the device's cache
  int64_t threads = 1;      // on cpu
  std::vector<int> cores;   // for timed calls (on a GPU, one at a time); empty: any
  // No times: the task is compared with its model (task_comparison), and `kinds` is empty.
  bool compares = false;
  bool of_remote_client = false;  // set by the node: a client on another machine asks
};
BOOST_DESCRIBE_STRUCT(baseline_request, (),
                      (task, seed, kinds, seconds, least_samples, prepare_seconds, best_pace_us, source, flush_bytes,
                       threads, cores, compares, of_remote_client))

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

// Whether an imported task computes what its model does.
struct task_comparison {
  std::string differs;             // what does; "" if they agree
  std::string uncompared;          // why they could not be compared; "" if they were
  double rounding = 0;             // the largest difference, over the tensor's largest value; 0: the same bits
  std::vector<std::string> notes;  // on results that no comparison tells anything of
  bool agrees() const { return differs.empty() && uncompared.empty(); }
};
BOOST_DESCRIBE_STRUCT(task_comparison, (), (differs, uncompared, rounding, notes))

// Of one task.
struct baseline_times {
  std::string torch;   // "torch 2.11.0+cu130, Python 3.11.2"
  std::string source;  // the blob that was measured, as in baseline_record
  std::vector<kind_times> kinds;
  std::optional<task_comparison> comparison;  // if the request was for one
};
BOOST_DESCRIBE_STRUCT(baseline_times, (), (torch, source, kinds, comparison))

// A Python process on one device; it is started by the first request and ends with this object. For one thread, which
// must outlive it.
class baseline_measurer {
 public:
  virtual ~baseline_measurer() = default;
  // The times of each kind of the request, in any order. errc::cancelled if interrupted; errc::infrastructure if no
  // process can be started.
  virtual expected<std::vector<kind_times>> measure(const baseline_request& r) = 0;
  // Compares the task with its model, in a process of its own. `blobs`: the folder of its weights and source. Errors as
  // of measure(); errc::timeout after longest_comparison.
  virtual expected<task_comparison> compare(const task& t, const std::string& blobs) = 0;
  // As in baseline_times; "" before the first measure().
  virtual const std::string& torch() const = 0;
};

struct baseline_place {
  std::string device;  // on this machine
  std::string log;     // file that the process's standard error is appended to
  int wake_fd = -1;    // ends a measurement with errc::cancelled while it is readable
};
// errc::not_found, with advice, if this machine has no Python with torch.
using make_baseline_measurer = std::function<expected<std::unique_ptr<baseline_measurer>>(const baseline_place&)>;

inline constexpr std::chrono::minutes longest_baseline_start{3};  // of a process
inline constexpr std::chrono::minutes longest_comparison{30};     // of a task with its model
inline constexpr std::chrono::seconds baseline_grace{10};         // added to the timeouts that the process announces

// When a request has ended for certain, as the process's own timeouts add up; each kind may need a new process.
inline std::chrono::milliseconds longest_baseline(const baseline_request& r) {
  if (r.compares) return longest_comparison + longest_baseline_start;
  const double timed_s = 60 + 40 * r.seconds;  // as in baseline.py
  const auto of_kind = std::chrono::milliseconds(static_cast<int64_t>(1000 * (2 * r.prepare_seconds + timed_s))) +
                       longest_baseline_start + 3 * baseline_grace;
  return of_kind * static_cast<int64_t>(r.kinds.size() + 1);
}

}  // namespace cudal1
