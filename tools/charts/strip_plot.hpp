// Raw samples, each as a dot on one axis, with their median.
#pragma once

#include <string>
#include <vector>

#include "tools/charts/drawing.hpp"
#include "tools/charts/scale.hpp"

namespace cudal1::charts {

struct strip_sample {
  double value = 0;
  int group = 0;  // samples of one group (a process) are at one height
};

struct strip {
  std::string name;
  std::vector<strip_sample> samples;
};

// The axis is logarithmic where values differ by more than four times. The first strip is drawn in grey. Pixels.
std::string strip_plot(const chart_text& text, const std::vector<strip>& strips, const value_format& format,
                       double width);

}  // namespace cudal1::charts
