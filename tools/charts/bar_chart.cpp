#include "tools/charts/bar_chart.hpp"

#include <algorithm>

namespace cudal1::charts {

namespace {

constexpr double row_height = 22, bar_height = 11, least_bar = 1.5;

std::string_view class_of(bar_tone tone) {
  return tone == bar_tone::plain ? "c-bar" : tone == bar_tone::even ? "c-even" : "c-bad";
}

struct value_range {
  double low, high;
};

value_range range_of(const std::vector<bar>& bars, const bar_axis& axis) {
  value_range r{axis.origin, axis.origin};
  for (const auto& b : bars) {
    r.low = std::min({r.low, b.value, b.low != b.high ? b.low : b.value});
    r.high = std::max({r.high, b.value, b.low != b.high ? b.high : b.value});
  }
  return r;
}

void draw_interval(drawing& d, const bar& b, const scale& along, double middle) {
  if (b.low == b.high) return;
  d.line({along(b.low), middle}, {along(b.high), middle}, "c-whisker");
  for (const double end : {b.low, b.high})
    d.line({along(end), middle - 3}, {along(end), middle + 3}, "c-whisker");
}

std::string lying(const chart_text& text, const std::vector<bar>& bars, const bar_axis& axis, double width) {
  double labels = 0, values = 0;
  for (const auto& b : bars) {
    labels = std::max(labels, label_width(b.label));
    values = std::max(values, label_width(b.text));
  }
  labels = std::min(labels, width * 0.36);
  const double left = labels + 10, right = width - values - 14, top = 4;
  const double bottom = top + row_height * static_cast<double>(bars.size());
  drawing d(text, width, bottom + (axis.title.empty() ? 24 : 42));
  const auto range = range_of(bars, axis);
  const scale along(axis.kind, range.low, range.high, left, right);
  for (const double tick : along.ticks(static_cast<std::size_t>(std::max(2.0, (right - left) / 58)), axis.least_step)) {
    d.line({along(tick), top}, {along(tick), bottom}, "c-grid");
    d.label({along(tick), bottom + 16}, axis.format(tick), text_anchor::middle, "c-muted");
  }
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const auto& b = bars[i];
    const double middle = top + row_height * (static_cast<double>(i) + 0.5);
    const double origin = along(axis.origin), end = along(b.value);
    d.label({left - 8, middle + 4}, shortened_to_width(b.label, labels), text_anchor::end);
    d.rectangle({std::min(origin, end), middle - bar_height / 2}, std::max(std::abs(end - origin), least_bar),
                bar_height, class_of(b.tone), b.hover);
    draw_interval(d, b, along, middle);
    d.label({std::max({end, origin, b.low != b.high ? along(b.high) : end}) + 7, middle + 4}, b.text,
            text_anchor::start, "c-value");
  }
  d.line({along(axis.origin), top}, {along(axis.origin), bottom}, "c-axis");
  if (!axis.title.empty()) d.label({right, bottom + 35}, axis.title, text_anchor::end, "c-muted");
  return d.svg();
}

std::string upright(const chart_text& text, const std::vector<bar>& bars, const bar_axis& axis, double width) {
  const auto range = range_of(bars, axis);
  const double left = 48, right = width - 8, top = 8, bottom = 268;
  drawing d(text, width, bottom + 26);
  const scale up(axis.kind, range.low, range.high, bottom, top);
  for (const double tick : up.ticks(7, axis.least_step)) {
    d.line({left, up(tick)}, {right, up(tick)}, "c-grid");
    d.label({left - 8, up(tick) + 4}, axis.format(tick), text_anchor::end, "c-muted");
  }
  const double each = (right - left) / static_cast<double>(bars.size());
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const auto& b = bars[i];
    const double at = left + each * static_cast<double>(i), origin = up(axis.origin), end = up(b.value);
    d.rectangle({at, std::min(origin, end)}, std::max(each * 0.8, 0.4), std::max(std::abs(end - origin), least_bar),
                class_of(b.tone), b.hover);
    if (b.low != b.high && each >= 4) d.line({at + each * 0.4, up(b.low)}, {at + each * 0.4, up(b.high)}, "c-whisker");
  }
  d.line({left, up(axis.origin)}, {right, up(axis.origin)}, "c-axis");
  d.label({left, bottom + 20}, axis.title, text_anchor::start, "c-muted");
  return d.svg();
}

}  // namespace

std::string bar_chart(const chart_text& text, const std::vector<bar>& bars, const bar_axis& axis, double width) {
  return bars.size() > most_labelled ? upright(text, bars, axis, width) : lying(text, bars, axis, width);
}

}  // namespace cudal1::charts
