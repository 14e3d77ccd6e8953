// Axes: values to coordinates, and the values to mark.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace cudal1::charts {

enum class scale_kind { linear, logarithmic };

// Maps values from low to high to coordinates from `from` to `to` (which may be the smaller one). A range without an
// extent is widened, and a logarithmic one begins above 0. Values outside the range map to its ends.
class scale {
 public:
  scale(scale_kind kind, double low, double high, double from, double to);

  double operator()(double value) const;
  // Round values within the range, ascending: at most `most`, at least one. Those of a linear scale are at least
  // `least_step` apart: 1 where values are counts.
  std::vector<double> ticks(std::size_t most, double least_step = 0) const;
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  std::vector<double> linear_ticks(std::size_t most, double least_step) const;
  std::vector<double> logarithmic_ticks(std::size_t most) const;
  scale_kind kind_;
  double low_, high_, from_, to_;
};

// The text of a value on an axis.
using value_format = std::function<std::string(double)>;

}  // namespace cudal1::charts
