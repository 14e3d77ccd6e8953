// For each task of an export: which variants may become its file, and the first of them whose file is right.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sandbox/program/task.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/kernelbench/export_kernelbench.hpp"
#include "tools/kernelbench/file_check.hpp"
#include "tools/kernelbench/model_file.hpp"

namespace cudal1::cli {

// One that may become a task's file, best first.
struct candidate {
  kernelbench::exported_variant variant;
  bool is_reference = false;
  std::optional<eager_comparison> eager;
  double speedup = 1;
  interval speedup_interval{1, 1};
  double reference_us = 0, best_us = 0;
};

struct exported_task {
  task t;
  exported_model line;
  std::vector<candidate> candidates;
  std::string problem, quoted;  // the source, and as the file has it
  std::string text;             // of the file that was taken; "" where none was
  bool kept = false;            // no file had to be built: all checks are known from before
};

// Which arithmetic of less than float32 a program or its explanation names, as one word; "" for none.
std::string arithmetic_of(const std::string& program, const std::vector<std::string>& explanation);

expected<exported_task> prepared_task(store& s, const search_report& r, const best_row& row,
                                      const kernelbench_request& request);

// The first candidate whose file can be made and is right; one that KernelBench's evaluator accepts before one that is
// right by eager's own noise alone. No checker: nothing is checked. Errors are of the machine, or errc::cancelled.
expected<void> choose(exported_task& e, const kernelbench_request& request, file_checker* checker);

}  // namespace cudal1::cli
