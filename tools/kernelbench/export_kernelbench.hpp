// cudal1 export --format kernelbench: the best of each task as a Python file with ModelNew that was checked as
// KernelBench does, an index, run folders as KernelBench's scripts read them, and a script that checks and times them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/cli/report/report.hpp"
#include "tools/kernelbench/export_index.hpp"
#include "tools/kernelbench/file_check.hpp"
#include "tools/kernelbench/model_file.hpp"

namespace cudal1::cli {

struct output_file {
  std::string name, text;  // the name may have folders
};

struct kernelbench_files {
  std::vector<output_file> files;
  kernelbench_index index;
  int64_t models = 0;
  int64_t without = 0;                // the reference itself is the best
  std::vector<std::string> refusals;  // "level1_001: reason", of tasks that cannot be such a file
};

// All, or those whose best is not the reference itself.
enum class exported_tasks { improved, all };

struct kernelbench_request {
  std::string data;  // the data folder, which has the store and the blobs
  exported_tasks which = exported_tasks::improved;
  bool check = true;
  bool for_cpu = false;  // kernels that were searched on cpu are wanted for one
  kernelbench::gradients needed_gradients = kernelbench::gradients::error;
  double check_limit_s = 180;
  std::function<void(const std::string&)> progress;  // "level1_023: checked", by one thread at a time
};

// Where the best variant of a task fails its check, the next best confirmed ones are tried. Errors as of file_checker.
expected<kernelbench_files> make_kernelbench_files(store& s, const search_report& r,
                                                   const kernelbench_request& request);

}  // namespace cudal1::cli
