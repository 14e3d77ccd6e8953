// The metrics of a node in Prometheus' text format. Plain logic.
#pragma once

#include <string>

#include "actors/messages/messages.hpp"

namespace cudal1 {

struct process_metrics {
  double resident_bytes = 0, cpu_s = 0;
  int64_t threads = 0;
};
// Of this process, from /proc; what cannot be read is 0.
process_metrics metrics_of_this_process();

// Names begin with cudal1_, times are in seconds. Counters count from the start of the node.
std::string metrics_text(const message::node_metrics& node, const process_metrics& process);

}  // namespace cudal1
