#include "tools/cli/page/page_charts.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "tools/charts/bar_chart.hpp"
#include "tools/charts/curve_chart.hpp"
#include "tools/charts/escape.hpp"
#include "tools/charts/range_chart.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {

using charts::bar;
using charts::bar_axis;
using charts::bar_tone;
using charts::chart_text;
using charts::scale_kind;

namespace {

constexpr double wide = 860, narrow = 328;

std::string times_format(double v) {
  return fmt::format("{:g}x", v);
}

std::string percent_format(double v) {
  return fmt::format("{:.0f}%", 100 * v);
}

std::string whole_format(double v) {
  return fmt::format("{:.0f}", v);
}

page_chart at_both_widths(const chart_text& text, const std::string& caption,
                          const std::function<std::string(const chart_text&, double)>& draw) {
  chart_text for_wide = text, for_narrow = text;
  for_wide.id = "chart-" + text.id + "-wide";
  for_narrow.id = "chart-" + text.id + "-narrow";
  return {text.id, caption, draw(for_wide, wide), draw(for_narrow, narrow)};
}

bar bar_of(const best_row& row) {
  bar b;
  b.label = row.name;
  const bool has_base = row.against && row.against->problem.empty() && row.against->speedup > 0;
  b.value = has_base ? row.against->speedup : 1;
  if (has_base && row.against->speedup_interval.low > 0)
    b.low = row.against->speedup_interval.low, b.high = row.against->speedup_interval.high;
  if (!row.is_reference && !has_base)
    b.value = row.speedup, b.low = row.speedup_interval.low, b.high = row.speedup_interval.high;
  b.text = format_speedup(b.value);
  b.tone = b.value > 1.01 ? bar_tone::plain : b.value < 0.99 ? bar_tone::bad : bar_tone::even;
  b.hover = fmt::format("{}: {}, {} to {}", row.name, b.low > 0 ? format_speedup(b.value, {b.low, b.high}) : b.text,
                        format_time(row.reference_us), format_time(row.best_us));
  return b;
}

std::string described(const std::vector<bar>& bars) {
  std::string text;
  constexpr std::size_t most = 8;
  for (std::size_t i = 0; i < bars.size() && i < most; ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", bars[i].label, bars[i].text);
  return bars.size() > most ? text + fmt::format(", and {} more; the table of tasks has all.", bars.size() - most)
                            : text + ".";
}

}  // namespace

std::string base_words(const std::string& base) {
  if (base == against_program) return "the task's own program";
  if (base == "eager") return "PyTorch's eager mode";
  if (base == "cudnn") return "eager mode with cuDNN's benchmark";
  if (base == "graph") return "PyTorch in a CUDA graph";
  return base == "compile" ? "torch.compile" : fmt::format("torch.compile ({})", base);
}

std::optional<page_chart> speedup_chart(const page_data& page) {
  std::vector<bar> bars;
  for (const auto& row : page.report.tasks)
    if (row.reference_us > 0) bars.push_back(bar_of(row));
  if (bars.empty()) return std::nullopt;
  std::ranges::stable_sort(bars, std::greater{}, &bar::value);
  const auto base = base_words(page.report.against);
  const bar_axis axis{scale_kind::logarithmic, 1, times_format, "over " + base + ", log scale"};
  const chart_text text{"speedups", "Speedup of each task",
                        fmt::format("Bars from the highest to the lowest: {}", described(bars))};
  return at_both_widths(
      text,
      page.report.against == against_program
          ? "Each bar is the median of paired ratios of call times, the line over it its 95% interval. Grey: no faster "
            "variant was confirmed."
          : "Each bar is a ratio of median call times, the line over it its 95% interval where both were measured in "
            "the same minutes. Grey: no faster variant was confirmed. Orange: slower than it.",
      [&](const chart_text& t, double width) { return charts::bar_chart(t, bars, axis, width); });
}

std::optional<page_chart> fast_share_chart(const page_data& page) {
  std::vector<charts::curve> curves;
  double high = 2;
  std::string about;
  for (const auto& base : page.bases) {
    const auto& sorted = base.speedups;
    const auto n = static_cast<double>(sorted.size());
    charts::curve c{base_words(base.base), {}, 0};
    const auto faster = [&](double p) {
      return static_cast<double>(sorted.end() - std::ranges::upper_bound(sorted, p)) / n;
    };
    c.points.push_back({1, faster(1)});
    for (const double p : sorted)
      if (p > c.points.back().x) c.points.push_back({p, faster(p)});
    high = std::max(high, sorted.back());
    about += fmt::format("Over {}: {} of the tasks are faster, {} more than twice. ", base_words(base.base),
                         percent_format(faster(1)), percent_format(faster(2)));
    curves.push_back(std::move(c));
  }
  if (curves.empty()) return std::nullopt;
  for (auto& c : curves)
    c.end = high;
  const charts::curve_axis x{scale_kind::logarithmic, 1, high, times_format, "more than p times as fast"};
  const charts::curve_axis y{scale_kind::linear, 0, 1, percent_format, "share of the tasks"};
  return at_both_widths({"fast-p", "fast_p: how many tasks are how much faster", about},
                        "fast_p of KernelBench: the share of the measured tasks that are correct and more than p times "
                        "as fast.",
                        [&](const chart_text& t, double width) {
                          return charts::curve_chart(t, curves, x, y, width, width > narrow ? 300 : 250);
                        });
}

std::optional<page_chart> progress_chart(const page_data& page) {
  std::vector<charts::curve> curves;
  double high = 1, longest = 1;
  std::string about;
  for (const auto& c : page.curves) {
    charts::curve drawn{c.name, {}, static_cast<double>(c.evaluations)};
    for (const auto& p : c.points)
      drawn.points.push_back({static_cast<double>(p.evaluations), p.best});
    high = std::max(high, c.points.back().best);
    longest = std::max(longest, drawn.end);
    about += fmt::format("{}: {} after {} of each task. ", c.name, format_speedup(c.points.back().best),
                         format_count(c.evaluations, "evaluation"));
    curves.push_back(std::move(drawn));
  }
  if (curves.empty()) return std::nullopt;
  const charts::curve_axis x{scale_kind::linear, 0, longest, whole_format, "evaluations of each task", 1};
  const charts::curve_axis y{scale_kind::logarithmic, 1, std::max(high * 1.05, 1.2), times_format,
                             "geometric mean of the best so far"};
  return at_both_widths(
      {"best-so-far", "Best so far over evaluations", about},
      "The geometric mean over the tasks of the best confirmed speedup over their own programs. Tasks "
      "without one count as 1.",
      [&](const chart_text& t, double width) {
        return charts::curve_chart(t, curves, x, y, width, width > narrow ? 280 : 240);
      });
}

std::optional<page_chart> roof_chart(const page_data& page) {
  std::vector<charts::value_pair> pairs;
  double high = 1;
  for (const auto& row : page.report.tasks) {
    if (!(row.roof_us > 0 && row.best_device_us > 0 && row.reference_device_us > 0)) continue;
    const double before = row.roof_us / row.reference_device_us;
    pairs.push_back({row.name, before, row.roof_share, percent_format(row.roof_share),
                     fmt::format("{}: {} of the {} roof, before {}", row.name, percent_format(row.roof_share),
                                 row.roof_limit, percent_format(before))});
    high = std::max(high, row.roof_share);
  }
  if (pairs.empty()) return std::nullopt;
  std::ranges::stable_sort(pairs, std::greater{}, &charts::value_pair::after);
  std::vector<bar> for_text;
  for (const auto& p : pairs)
    for_text.push_back({.label = p.label, .text = p.text});
  return at_both_widths(
      {"roof", "Share of the roof that is reached", "From the highest to the lowest: " + described(for_text)},
      "100% is the time that the task's memory traffic and arithmetic take on this device at the highest measured "
      "rates, without the cost of a call: an estimate, which caches can beat.",
      [&](const chart_text& t, double width) {
        return charts::range_chart(t, pairs, "reference", "best variant", 1, high, percent_format, width);
      });
}

std::optional<page_chart> technique_chart(const page_data& page) {
  std::vector<bar> bars;
  for (const auto& t : page.techniques) {
    if (!t.move.empty() || t.best_of == 0) continue;
    bars.push_back({.label = t.family,
                    .value = t.geometric_mean,
                    .text = fmt::format("{} in {}", format_speedup(t.geometric_mean), t.best_of),
                    .hover = fmt::format("{}: part of {} best variants", t.family, t.best_of)});
  }
  if (bars.empty()) return std::nullopt;
  std::ranges::stable_sort(bars, std::greater{}, &bar::value);
  const bar_axis axis{scale_kind::logarithmic, 1, times_format, ""};
  return at_both_widths({"techniques", "Typical speedup of best variants, by family of technique", described(bars)},
                        "The geometric mean of the speedups of those best variants that use the family, and how many "
                        "they are. Most variants use several, so this is no measure of one alone.",
                        [&](const chart_text& t, double width) { return charts::bar_chart(t, bars, axis, width); });
}

std::optional<page_chart> failure_chart(const page_data& page) {
  std::vector<bar> bars;
  for (const auto& f : page.failures)
    bars.push_back({.label = f.outcome,
                    .value = static_cast<double>(f.count),
                    .text = std::to_string(f.count),
                    .tone = bar_tone::bad,
                    .hover = fmt::format("{}: {}", f.outcome, f.count)});
  if (bars.empty()) return std::nullopt;
  const bar_axis axis{scale_kind::linear, 0, whole_format, "variants", 1};
  return at_both_widths({"failures", "Failed variants by outcome", described(bars)},
                        "A failed variant has no score. The glossary of cudal1 explains each outcome.",
                        [&](const chart_text& t, double width) { return charts::bar_chart(t, bars, axis, width); });
}

std::string html_of(const page_chart& c) {
  const auto caption = c.caption.empty() ? "" : "<figcaption>" + charts::escaped(c.caption) + "</figcaption>";
  if (c.narrow.empty()) return "<figure>" + c.wide + caption + "</figure>\n";
  return "<figure><div class=\"wide\">" + c.wide + "</div><div class=\"narrow\">" + c.narrow + "</div>" + caption +
         "</figure>\n";
}

}  // namespace cudal1::cli
