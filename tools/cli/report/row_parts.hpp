// Parts of the row of a task, for reports that read every verdict (report.cpp) and for quick_rows.
#pragma once

#include "sandbox/program/task.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

// Floor and roof of the task on a GPU's model; nothing where its specifications are unknown.
expected<void> put_floor(best_row& row, const task& t, const std::string& model, floor_finder& floors);

// "half" or "strict", where variants were held to that; else "".
std::string precision_of(const environment& where);

// The unconfirmed variant that is faster than the row's by its whole interval, the one with the highest lower end.
// `own`: id of the task's own program. `experiment`: "" for all.
expected<std::optional<unconfirmed_score>> unconfirmed_of(store& s, const best_row& row, const std::string& own,
                                                          const std::string& experiment);

}  // namespace cudal1::cli
