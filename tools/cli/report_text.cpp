#include <algorithm>

#include <fmt/format.h>

#include "actors/protocol.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

constexpr std::string_view reference_sentence = "the reference itself: nothing faster was confirmed";

std::string moves_of(const best_row& row) {
  if (row.is_reference) return std::string(row.evaluations > 0 ? reference_sentence : "not evaluated yet");
  return row.schedule.empty() ? row.origin : short_schedule(row.schedule);
}

table table_of(const search_report& r) {
  table t({{.title = "task", .least_width = 12},
           {.title = "reference", .right = true},
           {.title = "best", .right = true},
           {.title = "speedup, 95% interval"},
           {.title = "evals", .right = true, .drop = 2},
           {.title = "variant", .drop = 1},
           {.title = "moves", .least_width = 16, .drop = 3}});
  for (const auto& row : r.tasks) {
    const auto speedup = row.is_reference ? std::string(row.reference_us > 0 ? "1.00x" : "-")
                                          : format_speedup(row.speedup, row.speedup_interval);
    t.add({row.name, format_time(row.reference_us), format_time(row.best_us), speedup, std::to_string(row.evaluations),
           row.variant.empty() ? "-" : short_id(row.variant), moves_of(row)});
  }
  return t;
}

// "The device was busy for 83% of the time: open 3%, check 30%, time 61%, commit 6%." and, of what ran beside it,
// "Before the device, an evaluation took on average: compile 420 ms, wait 1.20 s.".
std::string where_time_went(const search_report& r) {
  const double on_device = device_ms_of(r.stage_ms);
  std::string shares, latencies;
  for (const auto stage : device_stages) {
    const auto found = r.stage_ms.find(std::string(stage));
    if (found == r.stage_ms.end() || !(found->second > 0.005 * on_device)) continue;
    shares += fmt::format("{}{} {:.0f}%", shares.empty() ? "" : ", ", stage, 100 * found->second / on_device);
  }
  for (const auto& [stage, ms] : r.stage_ms) {
    if (std::find(device_stages.begin(), device_stages.end(), stage) != device_stages.end() || r.evaluations == 0)
      continue;
    const double us_each = 1000 * ms / static_cast<double>(r.evaluations);
    if (us_each >= 1) latencies += fmt::format("{}{} {}", latencies.empty() ? "" : ", ", stage, format_time(us_each));
  }
  std::string text;
  if (!shares.empty())
    text = (r.device_busy > 0 ? fmt::format("The device was busy for {:.0f}% of the time", 100 * r.device_busy)
                              : std::string("The device's time")) +
           ": " + shares + ".";
  if (!latencies.empty())
    text += (text.empty() ? "" : " ") + ("Before the device, an evaluation took on average: " + latencies + ".");
  return text;
}

}  // namespace

std::string describe_device(const environment& e) {
  return e.details.empty() ? fmt::format("{}: {}", e.device, e.model)
                           : fmt::format("{}: {} ({})", e.device, e.model, e.details);
}

std::string about_timings(const std::string& device) {
  return device == "cpu" ? "Timings on cpu are real timings of this processor; they say nothing about a GPU." : "";
}

std::string print_title(const search_report& r) {
  std::string text;
  if (!r.experiment.empty())
    text = fmt::format("Experiment {} ({}), policy {}, device {}", r.experiment, r.state, r.policy, r.device);
  else
    text = fmt::format("Best confirmed variants of {}{}", format_count(static_cast<int64_t>(r.tasks.size()), "task"),
                       r.device.empty() ? "" : ", device " + r.device);
  for (const auto& e : r.environments)
    text += "\n" + describe_device(e);
  bool on_cpu = r.device == "cpu";
  for (const auto& e : r.environments)
    on_cpu = on_cpu || e.device == "cpu";
  if (on_cpu) text += "\n" + about_timings("cpu");
  return text;
}

std::string print_table(const search_report& r, const terminal& t) {
  return table_of(r).text(t.width, t.color);
}

std::string markdown_table(const search_report& r) {
  return table_of(r).markdown();
}

std::string print_summary(const search_report& r) {
  std::string text =
      fmt::format("{} of {} beat the reference by more than their interval; geometric mean {}.", r.beat_reference,
                  format_count(static_cast<int64_t>(r.tasks.size()), "task"), format_speedup(r.geometric_mean));
  text += "\n" + format_count(r.evaluations, "evaluation");
  if (r.evaluations_per_s > 0)
    text += fmt::format(" in {} ({} a second)", format_clock(r.active_s), format_figure(r.evaluations_per_s));
  const auto failures = format_failures(r.outcomes);
  text += failures.empty() ? "; none failed" : "; failed: " + failures;
  if (r.infrastructure_faults > 0)
    text += "; " + format_count(r.infrastructure_faults, "attempt") + " lost and made again";
  text += ".";
  if (const auto stages = where_time_went(r); !stages.empty()) text += "\n" + stages;
  return text;
}

std::string print_report(const search_report& r, const terminal& t) {
  std::string text;
  for (const auto& line : split_lines(print_title(r)))
    text += (text.empty() ? t.bold(line) : t.dim(wrap(line, t.width, 0))) + "\n";
  text += "\n" + print_table(r, t) + "\n";
  for (const auto& line : split_lines(print_summary(r)))
    text += wrap(line, t.width, 0) + "\n";
  return text;
}

}  // namespace cudal1::cli
