#include "tools/charts/strip_plot.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace cudal1::charts {

namespace {

double median_of(const strip& s) {
  std::vector<double> values;
  values.reserve(s.samples.size());
  for (const auto& one : s.samples)
    values.push_back(one.value);
  std::sort(values.begin(), values.end());
  if (values.empty()) return 0;
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void draw_strip(drawing& d, const strip& s, const scale& along, double top, double height, std::string_view css_class,
                const value_format& format) {
  std::set<int> groups;
  for (const auto& one : s.samples)
    groups.insert(one.group);
  const double each = height / static_cast<double>(groups.size() + 1);
  for (const auto& one : s.samples) {
    const auto place = std::distance(groups.begin(), groups.find(one.group)) + 1;
    d.circle({along(one.value), top + each * static_cast<double>(place)}, 2.4, css_class);
  }
  const double median = median_of(s);
  d.line({along(median), top + 1}, {along(median), top + height - 1}, "c-whisker");
  const bool right_of = along(median) > d.width() * 0.72;
  d.label({along(median) + (right_of ? -6 : 6), top - 3}, format(median),
          right_of ? text_anchor::end : text_anchor::start, "c-value");
}

}  // namespace

std::string strip_plot(const chart_text& text, const std::vector<strip>& strips, const value_format& format,
                       double width) {
  constexpr double strip_height = 34, gap = 20, top = 18;
  double low = std::numeric_limits<double>::infinity(), high = 0, names = 0;
  for (const auto& s : strips) {
    names = std::max(names, label_width(s.name));
    for (const auto& one : s.samples)
      low = std::min(low, one.value), high = std::max(high, one.value);
  }
  constexpr double far_apart = 4, room = 0.04;
  const auto kind = high > far_apart * low ? scale_kind::logarithmic : scale_kind::linear;
  if (kind == scale_kind::linear) {
    const double extent = std::max(high - low, high * 0.01);
    low = std::max(0.0, low - room * extent), high += room * extent;
  }
  const double left = names + 12, right = width - 30;
  const double bottom = top + (strip_height + gap) * static_cast<double>(strips.size()) - gap + 6;
  drawing d(text, width, bottom + 24);
  const scale along(kind, low, high, left + 6, right);
  for (const double tick : along.ticks(static_cast<std::size_t>(std::max(2.0, (right - left) / 72)))) {
    d.line({along(tick), top}, {along(tick), bottom}, "c-grid");
    d.label({along(tick), bottom + 16}, format(tick), text_anchor::middle, "c-muted");
  }
  d.line({left, bottom}, {right, bottom}, "c-axis");
  for (std::size_t i = 0; i < strips.size(); ++i) {
    const double at = top + (strip_height + gap) * static_cast<double>(i);
    d.label({left - 8, at + strip_height / 2 + 4}, strips[i].name, text_anchor::end);
    draw_strip(d, strips[i], along, at, strip_height, i == 0 ? "c-sample2" : "c-sample", format);
  }
  return d.svg();
}

}  // namespace cudal1::charts
