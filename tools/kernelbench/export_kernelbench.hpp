// cudal1 export --format kernelbench: the best of each task as a Python file with ModelNew that was checked as
// KernelBench does, an index, run folders as KernelBench's scripts read them, and a script that checks and times them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sandbox/program/task.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/kernelbench/export_index.hpp"
#include "tools/kernelbench/model_file.hpp"

namespace cudal1::cli {

struct output_file {
  std::string name, text;  // the name may have folders
};

struct kernelbench_files {
  std::vector<std::string> names;  // of the files that were written
  kernelbench_index index;
  int64_t models = 0;
  int64_t without = 0;                // the reference itself is the best
  std::vector<std::string> refusals;  // "level1_001: reason", of tasks that cannot be such a file
};

// All, or those whose best is not the reference itself.
enum class exported_tasks { improved, all };

// How far an export is, each time a task is done.
struct export_progress {
  std::string task, outcome;              // of the last one: "level1_023", "checked"
  int64_t done = 0, kept = 0, tasks = 0;  // kept: known from an earlier export, and done at once
  double elapsed_s = 0;
};
// "76 of 125 (12 known before), 4:40, about 3:00 left".
std::string progress_text(const export_progress& p);

struct kernelbench_request {
  std::string data;  // the data folder, which has the store, the blobs and what checks have found
  exported_tasks which = exported_tasks::improved;
  bool check = true;
  bool for_cpu = false;  // kernels that were searched on cpu are wanted for one
  kernelbench::gradients needed_gradients = kernelbench::gradients::error;
  double check_limit_s = 180;
  int stop_fd = -1;  // readable: what is done so far is all
  // Both by one thread at a time. A file is written as soon as it is checked; none before one is right.
  std::function<expected<void>(const output_file&)> write;
  std::function<void(const export_progress&)> progress;
};

// Where the best variant of a task fails its check, the next best confirmed ones are tried. The index says whether all
// tasks were done. Errors as of file_checker, without errc::cancelled.
expected<kernelbench_files> make_kernelbench_files(store& s, const search_report& r,
                                                   const kernelbench_request& request);

// What exports these tasks: whole models of Python as Python files, for a CPU where they were searched on one.
std::string export_command(const std::vector<task>& tasks, const std::string& device);

}  // namespace cudal1::cli
