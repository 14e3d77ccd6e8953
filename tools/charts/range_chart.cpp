#include "tools/charts/range_chart.hpp"

#include <algorithm>

namespace cudal1::charts {

namespace {

void draw_legend(drawing& d, double left, const std::string& before, const std::string& after) {
  d.circle({left + 5, 9}, 4, "c-ring");
  d.label({left + 15, 13}, before, text_anchor::start, "c-muted");
  const double second = left + 15 + label_width(before) + 20;
  d.circle({second + 5, 9}, 4.5, "c-dot");
  d.label({second + 15, 13}, after, text_anchor::start, "c-muted");
}

}  // namespace

std::string range_chart(const chart_text& text, const std::vector<value_pair>& pairs, const std::string& before,
                        const std::string& after, double goal, double high, const value_format& format, double width) {
  // Of many pairs the rows are lower, and have no labels.
  const bool labelled = pairs.size() <= 60;
  const double row_height = labelled ? 22 : 6;
  double labels = 0, values = 0;
  for (const auto& p : pairs) {
    labels = std::max(labels, labelled ? label_width(p.label) : 0);
    values = std::max(values, labelled ? label_width(p.text) : 0);
  }
  labels = std::min(labels, width * 0.36);
  const double left = labels + 14, right = width - values - 18, top = 26;
  const double bottom = top + row_height * static_cast<double>(pairs.size());
  drawing d(text, width, bottom + 24);
  draw_legend(d, left, before, after);
  const scale along(scale_kind::linear, 0, high, left, right);
  for (const double tick : along.ticks(static_cast<std::size_t>(std::max(2.0, (right - left) / 70)))) {
    d.line({along(tick), top}, {along(tick), bottom}, "c-grid");
    d.label({along(tick), bottom + 16}, format(tick), text_anchor::middle, "c-muted");
  }
  d.line({along(goal), top}, {along(goal), bottom}, "c-axis");
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& p = pairs[i];
    const double middle = top + row_height * (static_cast<double>(i) + 0.5);
    if (labelled) d.label({left - 12, middle + 4}, shortened_to_width(p.label, labels), text_anchor::end);
    d.line({along(p.before), middle}, {along(p.after), middle}, "c-link");
    d.circle({along(p.before), middle}, labelled ? 4 : 2, "c-ring");
    d.circle({along(p.after), middle}, labelled ? 4.5 : 2, "c-dot", p.hover);
    if (labelled)
      d.label({std::max(along(p.before), along(p.after)) + 9, middle + 4}, p.text, text_anchor::start, "c-value");
  }
  d.line({left, bottom}, {right, bottom}, "c-axis");
  return d.svg();
}

}  // namespace cudal1::charts
