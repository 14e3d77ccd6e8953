// Pairs of values, before and after, on one axis from 0: a ring, a dot, and what joins them.
#pragma once

#include <string>
#include <vector>

#include "tools/charts/drawing.hpp"
#include "tools/charts/scale.hpp"

namespace cudal1::charts {

struct value_pair {
  std::string label;
  double before = 0, after = 0;
  std::string text;  // of the value after
  std::string hover = {};
};

// `high`: the end of the axis. `goal`: where a line is drawn. `before` and `after` name the two in a legend. Pixels.
std::string range_chart(const chart_text& text, const std::vector<value_pair>& pairs, const std::string& before,
                        const std::string& after, double goal, double high, const value_format& format, double width);

}  // namespace cudal1::charts
