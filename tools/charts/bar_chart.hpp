// Horizontal bars with intervals, in the order in which they are given.
#pragma once

#include <string>
#include <vector>

#include "tools/charts/drawing.hpp"
#include "tools/charts/scale.hpp"

namespace cudal1::charts {

enum class bar_tone {
  plain,  // the accent
  even,   // no change, or something to compare with
  bad,
};

struct bar {
  std::string label;
  double value = 0;
  double low = 0, high = 0;  // an interval around the value; equal: none is drawn
  std::string text = {};     // of the value
  bar_tone tone = bar_tone::plain;
  std::string hover = {};
};

struct bar_axis {
  scale_kind kind = scale_kind::linear;
  double origin = 0;  // where bars begin: 1 for ratios
  value_format format;
  std::string title;
  double least_step = 0;  // between ticks: 1 of counts
};

// `width` in pixels: labels are cut to a part of it. More than `most_labelled` bars stand upright beside each other
// without labels, which a table must give.
inline constexpr std::size_t most_labelled = 60;
std::string bar_chart(const chart_text& text, const std::vector<bar>& bars, const bar_axis& axis, double width);

}  // namespace cudal1::charts
