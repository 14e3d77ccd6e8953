// What else uses the timing core while calls are timed there.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// Watches a core from begin() to end(). Not thread-safe.
class core_watch {
 public:
  explicit core_watch(int core) : core_(core) {}

  void begin();
  // The processor time of a process of ours on that core, before it ends; in milliseconds.
  void add_own(double ms) { own_ms_ += ms; }
  // `zygote`: it and its children are ours. Times of the system are counted in hundredths of a second.
  core_sharing end(int zygote) const;

 private:
  struct core_times {
    double busy_ms = 0, stolen_ms = 0;
  };
  struct process_times {
    std::string name;
    int parent = 0, core = -1;
    double ms = 0;  // of all its threads
  };
  core_times read_core() const;
  static std::map<int, process_times> read_processes();

  int core_;
  core_times core_before_;
  std::map<int, process_times> before_;
  std::chrono::steady_clock::time_point begun_;
  double own_ms_ = 0;
};

// The processor time of a process, in milliseconds; 0 if it has ended.
double processor_ms(int pid);

}  // namespace cudal1
