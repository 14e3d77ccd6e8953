// Measures PyTorch on one device of this machine, in a Python process that lives until the device is released; and
// compares tasks with their models there, each in a process of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/messages/baseline_times.hpp"
#include "actors/messages/interfaces.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// Ends a measurement, from any thread.
class baseline_cancel {
 public:
  static expected<std::shared_ptr<baseline_cancel>> make();
  explicit baseline_cancel(unique_fd event) : event_(std::move(event)) {}
  // fd() is readable from set() to clear().
  int fd() const { return event_.get(); }
  void set();
  void clear();

 private:
  unique_fd event_;
};

struct baseline_setup {
  std::string device;  // on this machine
  std::string data;    // folder
  baseline_request of_device;
  std::vector<int> seen;  // cores that the process may use; empty: any
  make_baseline_measurer make;
  std::shared_ptr<baseline_cancel> cancel;
};

class baseline_state {
 public:
  static constexpr const char* name = "baseline";

  void begin(baseline_setup setup);
  // Of a task whose blobs are here: measures it, or compares it with its model.
  expected<baseline_times> measure(const message::measure_baseline& m);
  expected<message::done> release();

 private:
  expected<std::string> source_of(const task& t) const;

  baseline_setup setup_;
  std::unique_ptr<baseline_measurer> measurer_;
};

baseline_actor::behavior_type run_baseline(baseline_actor::stateful_pointer<baseline_state> self,
                                           const std::shared_ptr<baseline_setup>& setup);

}  // namespace cudal1
