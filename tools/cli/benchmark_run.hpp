// A whole benchmark as a list of commands, which goes on where it was interrupted: what has been done is kept in a file
// of its folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "tools/cli/command.hpp"

namespace cudal1::cli {

struct benchmark_request {
  std::vector<std::string> sources;  // absolute paths of problems
  std::vector<std::string> only;
  int64_t level = 0;               // 0: all
  std::string device, policy;      // "": the usual one
  int64_t evaluations = 24;        // of each task
  std::string time;                // limit of the search, "": none
  std::vector<std::string> kinds;  // of PyTorch; empty: the usual ones of the device
  std::vector<std::string> settings;
  bool confined = false, exports = true;
  bool definitions = false;  // of FlashInfer-Bench or SOL-ExecBench: the exported files are written as solutions
};
BOOST_DESCRIBE_STRUCT(benchmark_request, (),
                      (sources, only, level, device, policy, evaluations, time, kinds, settings, confined, exports,
                       definitions))

// DIR/bench.json.
struct benchmark_state {
  benchmark_request request;
  std::vector<std::string> done;  // names of steps
  std::string experiment;         // of the search, once it has begun
  std::string before;             // the newest experiment when it was to begin
};
BOOST_DESCRIBE_STRUCT(benchmark_state, (), (request, done, experiment, before))

// A benchmark's own evaluator on the exported files: no part of the request, so that it may come later.
struct evaluator_request {
  std::string kernelbench;  // the path of a checkout, "": not evaluated
  std::string timeout;      // of a file, or of a solution on a workload; "": the usual one
};

// Imports the problems, searches, measures PyTorch, exports with KernelBench's check (on a GPU), has the files
// evaluated (or written as solutions), and writes reports, all to `folder`, which is created or goes on. The exit code.
// errc::invalid_argument where the folder is of another request, or has other files.
expected<int> run_benchmark(const benchmark_request& r, const evaluator_request& evaluator, const std::string& folder,
                            const context& c);

}  // namespace cudal1::cli
