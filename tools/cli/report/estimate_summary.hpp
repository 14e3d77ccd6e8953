// How well estimates of programs' times ordered what an experiment measured.
#pragma once

#include <optional>
#include <string>

#include <boost/describe.hpp>

#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

struct estimate_summary {
  int64_t tasks = 0, variants = 0;
  double rank_correlation = 0;  // of estimated and measured device times, the mean over the tasks
};
BOOST_DESCRIBE_STRUCT(estimate_summary, (), (tasks, variants, rank_correlation))

// Over the tasks of an experiment with at least five correct variants that a schedule made and whose device times were
// measured on a GPU of known specifications; nothing if there is none, or in a report on the whole store. Variants are
// lowered again: at most 32 of a task, and none of a large one, which takes long.
expected<std::optional<estimate_summary>> estimates_of(store& s, const search_report& r);
std::string print_estimates(const estimate_summary& e);

}  // namespace cudal1::cli
