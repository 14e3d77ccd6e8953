// Which variants of a search an export has found right: reports count those alone with `cudal1 report --exportable`.
#pragma once

#include <string>

#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

struct exportable_summary {
  int64_t tasks = 0, exportable = 0;
  int64_t unchecked = 0;  // no file of any variant was ever checked
};
BOOST_DESCRIBE_STRUCT(exportable_summary, (), (tasks, exportable, unchecked))

// Replaces each row by its best confirmed variant of which KernelBench's evaluator accepts the file, as checks in the
// data folder have found (kept_checks); by the reference, with a remark, where there is none. Before a comparison.
expected<exportable_summary> leave_exportable(store& s, search_report& r, const std::string& data);

std::string print_exportable(const exportable_summary& s);

}  // namespace cudal1::cli
