// Curves over one axis, as steps or as lines, with their names above.
#pragma once

#include <string>
#include <vector>

#include "tools/charts/drawing.hpp"
#include "tools/charts/scale.hpp"

namespace cudal1::charts {

// `points` ascend in x. As steps, the curve keeps its last y to `end`.
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

// How points are joined: each keeps its y until the next, or straight.
enum class curve_form { steps, lines };

// At most `most_curves` are drawn. `marks`: x of upright lines. Pixels.
inline constexpr std::size_t most_curves = 6;
std::string curve_chart(const chart_text& text, const std::vector<curve>& curves, const curve_axis& x,
                        const curve_axis& y, double width, double height, curve_form form = curve_form::steps,
                        const std::vector<double>& marks = {});

}  // namespace cudal1::charts
