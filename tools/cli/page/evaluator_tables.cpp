// What KernelBench's own evaluator says of the exported files, beside what was measured here.
#include <fmt/format.h>

#include "tools/cli/format.hpp"
#include "tools/cli/page/page_tables.hpp"

namespace cudal1::cli {

namespace {

data_cell number(int64_t n) {
  return {std::to_string(n)};
}

data_cell times(double value) {
  return value > 0 ? data_cell{format_speedup(value), exact(value)} : data_cell{"-"};
}

data_cell part_of_all(double value) {
  return {fmt::format("{:.0f}%", 100 * value), exact(value)};
}

data_cell ms_cell(double ms) {
  return ms > 0 ? data_cell{format_time(1000 * ms), exact(1000 * ms)} : data_cell{"-"};
}

// The task's row of the report and its number there, from 1; 0 for none.
std::size_t place_in_report(const page_data& page, const std::string& task) {
  for (std::size_t i = 0; i < page.report.tasks.size(); ++i)
    if (page.report.tasks[i].task == task) return i + 1;
  return 0;
}

}  // namespace

data_table evaluator_group_table(const page_data& page) {
  data_table t{"evaluator-groups",
               "By level. The geometric mean is of the accepted. fast_p: share of all files that are accepted and more "
               "than p times as fast as eager.",
               {{"files of"},
                {"accepted", true},
                {"refused", true},
                {"not judged", true},
                {"geo. mean", true},
                {"max", true},
                {"fast_1", true},
                {"fast_1.5", true},
                {"fast_2", true}},
               {}};
  if (!page.evaluator || page.evaluator->tasks.empty()) return t;
  for (const auto& s : summaries_of(*page.evaluator))
    t.rows.push_back({{s.group},
                      number(s.accepted),
                      number(s.refused),
                      number(s.not_judged),
                      times(s.geometric_mean),
                      times(s.largest),
                      part_of_all(s.fast_1),
                      part_of_all(s.fast_15),
                      part_of_all(s.fast_2)});
  return t;
}

data_table evaluator_table(const page_data& page) {
  data_table t{"evaluator",
               "Each exported file: the evaluator's verdict, times and speedup over eager (means of device time), then "
               "what was measured here (medians of paired call times): the speedup over eager, over the task's own "
               "program, and the share of the roof.",
               {{"task"},
                {"verdict"},
                {"eager", true},
                {"file", true},
                {"speedup", true},
                {"ours", true},
                {"over program", true},
                {"roof", true},
                {"why", false, true}},
               {}};
  if (!page.evaluator) return t;
  for (const auto& f : page.evaluator->tasks) {
    const auto place = place_in_report(page, f.id);
    data_cell name{f.task}, over_eager{"-"}, over_program{"-"}, roof{"-"};
    if (place > 0) {
      const auto& row = page.report.tasks[place - 1];
      name.link = fmt::format("task-{}", place);
      if (row.against && row.against->kind == "eager") over_eager = times(row.against->speedup);
      if (row.reference_us > 0) over_program = times(row.speedup);
      if (row.roof_share > 0) roof = part_of_all(row.roof_share);
    }
    t.rows.push_back({name,
                      {verdict_words(f)},
                      ms_cell(f.reference_ms),
                      ms_cell(f.ms),
                      times(f.speedup),
                      over_eager,
                      over_program,
                      roof,
                      {f.metadata.contains("excessive_speedup") ? "flagged as an excessive speedup" : f.why}});
  }
  return t;
}

}  // namespace cudal1::cli
