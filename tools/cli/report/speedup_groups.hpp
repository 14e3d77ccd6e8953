// The summary of a report's speedups over all tasks, by level and by family.
#pragma once

#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

struct group_summary {
  std::string group;  // "all", "level 1", a family
  speedup_summary over;
};
BOOST_DESCRIBE_STRUCT(group_summary, (), (group, over))

// "all" first, then all but ill-conditioned tasks where there are some, levels, and families where there are several.
// compare_with_base must have been called.
std::vector<group_summary> groups_of(const search_report& r);

}  // namespace cudal1::cli
