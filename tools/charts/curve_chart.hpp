// Stepwise curves over one axis, with their names at their ends or below.
#pragma once

#include <string>
#include <vector>

#include "tools/charts/drawing.hpp"
#include "tools/charts/scale.hpp"

namespace cudal1::charts {

// `points` ascend in x. The curve keeps a point's y until the next one, and its last y to `end`.
struct curve {
  std::string name;
  std::vector<point> points;
  double end = 0;
};

struct curve_axis {
  scale_kind kind = scale_kind::linear;
  double low = 0, high = 1;
  value_format format;
  std::string title;
  double least_step = 0;  // between ticks: 1 of counts
};

// At most `most_curves` are drawn. Pixels.
inline constexpr std::size_t most_curves = 6;
std::string curve_chart(const chart_text& text, const std::vector<curve>& curves, const curve_axis& x,
                        const curve_axis& y, double width, double height);

}  // namespace cudal1::charts
