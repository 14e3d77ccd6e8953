// What `cudal1 top` shows: a node, its devices and its experiments, as lines of a full screen.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/protocol.hpp"
#include "tools/cli/progress.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

struct top_experiment {
  experiment_progress progress;
  run_limits limits;
  int64_t in_flight = 0;  // proposals without a verdict: queued, compiled or on a device
  // Stage times since the last time that they were looked at, in milliseconds: what its devices did just now.
  std::map<std::string, double> recent_ms;
};

struct top_state {
  std::string place;                // the data folder, or the coordinator
  std::optional<node_status> node;  // nothing: none runs
  std::vector<top_experiment> experiments;
  std::string problem;  // why something is missing; "" if nothing is
};

// Seconds until the first of its limits, at the mean rate so far; nothing if it has no limit or no rate.
std::optional<double> remaining_s(const experiment_progress& p, const run_limits& limits);

// The share of the limits that is used up, 0 to 1: of the one that ends it first.
double share_done(const experiment_progress& p, const run_limits& limits);
// "check 30%, time 61%": of the time in which its devices were held just now; "" if they were not.
std::string device_work(const top_experiment& e);
// "e3, busy 97%", or "idle".
std::string state_of(const device_report& d, const top_state& s);

// Lines cut to the terminal's width and height.
std::vector<std::string> top_frame(const top_state& s, const terminal& t);

}  // namespace cudal1::cli
