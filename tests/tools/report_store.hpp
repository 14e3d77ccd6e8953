// Stores with the records of whole searches, for reports: as many tasks and variants as wanted, and with hostile text.
#pragma once

#include <cstdint>
#include <string>

namespace cudal1::cli {

// What text of models and people may hold to break a page.
inline constexpr const char* hostile_text = "</script><img src=x onerror=\"alert(1)\">'&\x01";

struct report_store_options {
  int64_t tasks = 30;  // of the built-in ones
  int64_t variants_of_a_task = 24;
  bool hostile = false;  // hostile_text in names, moves, reasons, sources, models and the environment
  bool running = false;  // the second experiment has not ended, and half of its tasks have no evaluation
  bool failing = false;  // no variant is correct
  uint64_t seed = 1;
};

// Creates DATA/store as searches on an H200 would leave it: e1 (evolutionary) and e2 (random) with verdicts, raw
// samples, parents, failures of several outcomes, hack cases, and PyTorch's times of each task. Aborts with a message
// where that is impossible.
void write_report_store(const std::string& data, const report_store_options& o);
// A store without any task.
void write_empty_store(const std::string& data);

}  // namespace cudal1::cli
