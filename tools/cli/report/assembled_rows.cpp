#include "tools/cli/report/assembled_rows.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

// "+12%"; "-" where either is unknown.
std::string deviation(double measured_us, double predicted_us) {
  return measured_us > 0 && predicted_us > 0 ? fmt::format("{:+.0f}%", 100 * (measured_us / predicted_us - 1)) : "-";
}

bool is_far_off(double measured_us, double predicted_us) {
  return measured_us > 0 && predicted_us > 0 && std::fabs(measured_us / predicted_us - 1) > 0.15;
}

// Whether the launches of the parts explain that the whole is faster than predicted: between two events a kernel takes
// 2 to 3 us more than in a CUDA graph, where it is launched while the one before runs (H100, tools/bench/RESULTS.md).
bool is_by_launches(const assembled_row& a) {
  constexpr double launch_us = 3;
  const double off_us = a.predicted_us - a.measured_us;
  return off_us > 0 && off_us <= launch_us * static_cast<double>(a.parts);
}

// What explains that a prediction is far off.
enum class far_off { no, launches, unmeasured_parts, like_own_program, unlike_own_program };

far_off why_far_off(const assembled_row& a) {
  if (!is_far_off(a.measured_us, a.predicted_us)) return far_off::no;
  if (is_by_launches(a)) return far_off::launches;
  if (a.measured_parts < a.parts) return far_off::unmeasured_parts;
  // As far off as the task's own program, of which nothing was changed?
  const bool alike = !is_far_off(a.measured_us / a.predicted_us, a.reference_us / a.predicted_reference_us);
  return alike ? far_off::like_own_program : far_off::unlike_own_program;
}

}  // namespace

void set_prediction(assembled_row& row, const assembled_trace& trace) {
  row.partition = trace.partition;
  row.parts = trace.parts;
  row.measured_parts = trace.measured_parts;
  row.moves_left_out = trace.moves_left_out;
  row.rest_us = row.measured_parts < row.parts ? std::max(0.0, row.reference_us - trace.own_us) : 0;
  row.predicted_us = trace.predicted_us + row.rest_us;
  row.predicted_reference_us = trace.own_us + row.rest_us;
}

expected<std::vector<assembled_row>> assembled_of(store& s, const experiment_record& e) {
  std::vector<assembled_row> rows;
  if (!e.uses_parts) return rows;
  for (const auto& task : e.tasks) {
    CUDAL1_TRY(const auto record, s.get_task(task));
    CUDAL1_TRY(const auto verdicts, s.verdicts_of_task(task, e.id));
    for (const auto& v : verdicts) {
      CUDAL1_TRY(const auto uses, s.uses_of_variant(v.variant));
      const auto here =
          std::ranges::find_if(uses, [&](const auto& u) { return u.experiment == e.id && u.task == task; });
      const auto trace = here == uses.end() ? std::nullopt : assembled_trace_of(here->trace);
      if (!trace) continue;
      const auto times = compared_times_of(v);
      assembled_row row;
      row.task = task;
      row.name = record.name;
      row.variant = v.variant;
      row.result = enum_name(v.result);
      if (v.result == outcome::correct) row.measured_us = times.variant_us;
      row.reference_us = times.reference_us;
      set_prediction(row, *trace);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string print_assembled(const search_report& r, const terminal& t) {
  if (r.assembled.empty()) return "";
  table rows({{.title = "put together from parts", .least_width = 16},
              {.title = "cut into", .least_width = 12, .drop = 2},
              {.title = "parts", .right = true},
              {.title = "predicted", .right = true},
              {.title = "measured", .right = true},
              {.title = "off by", .right = true},
              {.title = "its own program", .right = true, .drop = 1},
              {.title = "off by", .right = true, .drop = 1}});
  bool any_unmeasured = false;
  std::set<far_off> why;
  for (const auto& a : r.assembled) {
    const bool whole = a.measured_parts == a.parts;
    any_unmeasured = any_unmeasured || !whole;
    why.insert(why_far_off(a));
    rows.add({a.name, a.partition, whole ? std::to_string(a.parts) : fmt::format("{} of {}", a.measured_parts, a.parts),
              format_time(a.predicted_us), a.measured_us > 0 ? format_time(a.measured_us) : a.result,
              deviation(a.measured_us, a.predicted_us), format_time(a.reference_us),
              whole ? deviation(a.reference_us, a.predicted_reference_us) : "-"});
  }
  std::string text = rows.text(t);
  const auto add = [&](std::string_view sentence) { text += wrap(sentence, t.width, 0) + "\n"; };
  if (any_unmeasured)
    add("A prediction is the sum of the measured parts; for parts that were not measured, the time that the task's own "
        "program takes beside the measured ones is added.");
  for (const auto& a : r.assembled)
    if (a.moves_left_out > 0)
      add(fmt::format("{}, {}: {} of the parts' schedules {} not legal in the whole.", a.name, a.partition,
                      format_count(a.moves_left_out, "move"), a.moves_left_out == 1 ? "is" : "are"));
  if (why.contains(far_off::launches))
    add("More than 15% off, but by at most 3 us a part: a part that is timed alone takes its launch with it, and in a "
        "CUDA graph of the whole it is launched while the one before runs.");
  if (why.contains(far_off::like_own_program) && !why.contains(far_off::unlike_own_program))
    add("More than 15% off, and so is the task's own program: parts were measured alone, with cold weights, and "
        "perhaps while the machine was faster or slower. The sum of parts is no measurement.");
  if (why.contains(far_off::unlike_own_program))
    add("More than 15% off, unlike the task's own program: a part in the whole finds other caches, draws or layouts "
        "than alone. The sum of parts is no measurement.");
  if (why.contains(far_off::unmeasured_parts))
    add("More than 15% off where parts were not measured: their kernels are chosen anew in the whole, and the time of "
        "the task's own program has gaps between kernels that a CUDA graph shortens; of a layout with the channels "
        "last, its convolutions are still those of the task's own.");
  return text;
}

}  // namespace cudal1::cli
