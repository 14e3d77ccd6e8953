// cudal1 export --format kernelbench, as a user sees it: files that appear as they are checked, how far it is, and what
// must be known of them.
#pragma once

#include "tools/cli/command.hpp"
#include "tools/cli/commands/export_folder.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/kernelbench/export_kernelbench.hpp"

namespace cudal1::cli {

// `request` without what is set here: data, stop_fd, write, progress. Returns the exit code.
expected<int> export_models(store& s, const search_report& report, kernelbench_request request,
                            const export_folder& folder, shown_as form, const context& c);

void print_tasks_without_variant(int64_t left, const context& c);

}  // namespace cudal1::cli
