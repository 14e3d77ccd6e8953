// The charts of one task.
#include <algorithm>

#include <fmt/format.h>

#include "tools/charts/bar_chart.hpp"
#include "tools/charts/curve_chart.hpp"
#include "tools/charts/strip_plot.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/page_charts.hpp"

namespace cudal1::cli {

using charts::bar;
using charts::bar_tone;
using charts::scale_kind;

namespace {

constexpr double width = 336;

std::optional<page_chart> times_chart(const task_page& t, const std::string& id) {
  const auto& row = t.row;
  if (!(row.reference_us > 0)) return std::nullopt;
  std::vector<bar> bars;
  const auto add = [&](const std::string& label, double us, bar_tone tone) {
    if (us > 0) bars.push_back({.label = label, .value = us, .text = format_time(us), .tone = tone});
  };
  for (const auto& b : t.baselines)
    if (b.problem.empty()) add(b.kind, b.call_us, bar_tone::even);
  add("reference", row.reference_us, bar_tone::even);
  if (!row.is_reference) add(t.variant_name, row.best_us, bar_tone::plain);
  add("floor", row.floor_us, bar_tone::even);
  std::string about;
  for (const auto& b : bars)
    about += fmt::format("{}{} {}", about.empty() ? "" : ", ", b.label, b.text);
  const charts::bar_axis axis{scale_kind::linear, 0, [](double us) { return us > 0 ? format_time(us) : "0"; }, ""};
  return page_chart{id + "-times", "Median call times.",
                    charts::bar_chart({"chart-" + id + "-times", "Times of one call", about + "."}, bars, axis, width),
                    ""};
}

std::optional<page_chart> samples_chart(const task_page& t, const std::string& id) {
  if (!t.result || t.result->samples.empty()) return std::nullopt;
  charts::strip reference{"reference", {}}, variant{"variant", {}};
  for (const auto& s : t.result->samples) {
    reference.samples.push_back({s.reference_us, s.fork});
    variant.samples.push_back({s.variant_us, s.fork});
  }
  const auto about = fmt::format("{} of calls; the medians are {} for the reference and {} for the variant.",
                                 format_count(std::ssize(t.result->samples), "pair"),
                                 format_time(t.result->reference_us), format_time(t.result->variant_us));
  return page_chart{
      id + "-samples", "Every raw sample: a dot is a call, a row a pair of fresh processes, the line the median.",
      charts::strip_plot({"chart-" + id + "-samples", "Raw samples", about}, {reference, variant}, format_time, width),
      ""};
}

std::vector<named_curve> curves_of(const task_page& t) {
  if (!t.curves.empty() || t.curve.empty()) return t.curves;
  return {{"", t.curve, t.row.evaluations}};
}

}  // namespace

std::optional<page_chart> task_progress_chart(const std::vector<named_curve>& curves, const std::string& id) {
  std::vector<charts::curve> drawn;
  double high = 1, longest = 1;
  std::string about;
  for (const auto& c : curves) {
    charts::curve one{c.name, {}, static_cast<double>(c.evaluations)};
    for (const auto& p : c.points) {
      one.points.push_back({static_cast<double>(p.evaluations), p.best});
      about += fmt::format("{}{}{} after {}", about.empty() ? "" : ", ", c.name.empty() ? "" : c.name + " ",
                           format_speedup(p.best), p.evaluations);
    }
    high = std::max(high, c.points.back().best);
    longest = std::max(longest, one.end);
    drawn.push_back(std::move(one));
  }
  if (high <= 1) return std::nullopt;
  const auto times = [](double v) { return fmt::format("{:g}x", v); };
  const charts::curve_axis x{scale_kind::linear, 0, longest, [](double v) { return fmt::format("{:.0f}", v); },
                             "evaluations"};
  const charts::curve_axis y{scale_kind::logarithmic, 1, std::max(1.2, 1.05 * high), times, "best confirmed speedup"};
  return page_chart{id + "-progress", "",
                    charts::curve_chart({"chart-" + id + "-progress", "Best so far", about + " evaluations."}, drawn, x,
                                        y, width, 220),
                    ""};
}

std::vector<page_chart> task_charts(const task_page& t, std::size_t number) {
  const auto id = fmt::format("task-{}", number);
  std::vector<page_chart> all;
  for (auto& chart : {times_chart(t, id), samples_chart(t, id), task_progress_chart(curves_of(t), id)})
    if (chart) all.push_back(*chart);
  return all;
}

}  // namespace cudal1::cli
