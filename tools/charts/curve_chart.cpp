#include "tools/charts/curve_chart.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace cudal1::charts {

namespace {

constexpr double least_step_width = 0.7;  // pixels: of narrower steps only the last is drawn

std::vector<point> line_of(const curve& c, const scale& x, const scale& y) {
  std::vector<point> path;
  for (const auto& p : c.points)
    path.push_back({x(p.x), y(p.y)});
  return path;
}

std::vector<point> steps_of(const curve& c, const scale& x, const scale& y) {
  std::vector<point> path;
  for (const auto& p : c.points) {
    if (path.size() > 1 && x(p.x) - path.back().x < least_step_width) {
      path.back().y = y(p.y);
      continue;
    }
    if (!path.empty()) path.push_back({x(p.x), path.back().y});
    path.push_back({x(p.x), y(p.y)});
  }
  if (!path.empty() && c.end > c.points.back().x) path.push_back({x(c.end), path.back().y});
  return path;
}

// The names of the curves, each behind a piece of its line; one curve needs none. Returns the height that they take.
double draw_names(drawing* d, const std::vector<curve>& curves, double left, double right, double top) {
  constexpr double piece = 26, gap = 18, line = 18;
  if (curves.size() < 2) return 0;
  double at = left, row = 0;
  for (std::size_t i = 0; i < curves.size() && i < most_curves; ++i) {
    const double width = piece + 6 + label_width(curves[i].name);
    if (at > left && at + width > right) at = left, ++row;
    const double y = top + line * row + 6;
    if (d != nullptr) {
      d->line({at, y}, {at + piece, y}, fmt::format("c-curve s{}", i));
      d->label({at + piece + 6, y + 4}, curves[i].name, text_anchor::start);
    }
    at += width + gap;
  }
  return line * (row + 1) + 6;
}

}  // namespace

std::string curve_chart(const chart_text& text, const std::vector<curve>& curves, const curve_axis& x,
                        const curve_axis& y, double width, double height, curve_form form,
                        const std::vector<double>& marks) {
  const double left = 46, right = width - 12;
  const double top = 20 + draw_names(nullptr, curves, left, right, 0), bottom = top + height - 62;
  drawing d(text, width, bottom + 42);
  draw_names(&d, curves, left, right, 2);
  const scale across(x.kind, x.low, x.high, left, right), up(y.kind, y.low, y.high, bottom, top);
  for (const double tick : up.ticks(6, y.least_step)) {
    d.line({left, up(tick)}, {right, up(tick)}, "c-grid");
    d.label({left - 8, up(tick) + 4}, y.format(tick), text_anchor::end, "c-muted");
  }
  for (const double tick : across.ticks(static_cast<std::size_t>(std::max(2.0, (right - left) / 62)), x.least_step)) {
    d.line({across(tick), bottom}, {across(tick), bottom + 4}, "c-axis");
    d.label({across(tick), bottom + 18}, x.format(tick), text_anchor::middle, "c-muted");
  }
  for (const double mark : marks)
    d.line({across(mark), top}, {across(mark), bottom}, "c-mark");
  d.line({left, bottom}, {right, bottom}, "c-axis");
  d.label({left, top - 9}, y.title, text_anchor::start, "c-muted");
  d.label({right, bottom + 36}, x.title, text_anchor::end, "c-muted");
  for (std::size_t i = std::min(curves.size(), most_curves); i-- > 0;)
    d.path(form == curve_form::steps ? steps_of(curves[i], across, up) : line_of(curves[i], across, up),
           fmt::format("c-curve s{}", i));
  return d.svg();
}

}  // namespace cudal1::charts
