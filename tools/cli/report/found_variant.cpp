#include "tools/cli/report/found_variant.hpp"

#include <algorithm>

#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

expected<variant_record> find_shown(store& s, const std::string& name) {
  auto by_id = s.find_variant(name);
  if (by_id) return by_id;
  CUDAL1_TRY(const auto report, report_everything(s));
  const auto row = std::ranges::find(report.tasks, name, &best_row::name);
  if (row == report.tasks.end()) return by_id;
  if (row->is_reference)
    return fail(errc::not_found, "no faster variant of {} was confirmed; `cudal1 best {}` lists its correct ones", name,
                name);
  return s.get_variant(row->variant);
}

}  // namespace cudal1::cli
