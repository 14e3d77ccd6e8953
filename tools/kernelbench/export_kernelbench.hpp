// cudal1 export --format kernelbench: the best of each task as a Python file with ModelNew, an index, and a script that
// checks and times them. See tools/kernelbench.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

struct output_file {
  std::string name, text;
};

struct kernelbench_files {
  std::vector<output_file> files;
  int64_t models = 0;
  int64_t without = 0;                // the reference itself is the best
  std::vector<std::string> refusals;  // "level1_001: reason", of tasks that cannot be such a file
};

// All, or those whose best is not the reference itself.
enum class exported_tasks { improved, all };

// `data`: the data folder, which has the store and the blobs.
expected<kernelbench_files> make_kernelbench_files(store& s, const search_report& r, const std::string& data,
                                                   exported_tasks which);

}  // namespace cudal1::cli
