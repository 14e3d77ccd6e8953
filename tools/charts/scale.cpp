#include "tools/charts/scale.hpp"

#include <algorithm>
#include <cmath>

namespace cudal1::charts {

namespace {

constexpr double least_positive = 1e-9;
constexpr double rounding = 1e-9;  // of a value that is computed as an end of the range

// Every `step`-th value, where `values` are more than `most`.
std::vector<double> thinned(const std::vector<double>& values, std::size_t most) {
  const std::size_t step = (values.size() + most - 1) / std::max<std::size_t>(most, 1);
  std::vector<double> kept;
  for (std::size_t i = 0; i < values.size(); i += std::max<std::size_t>(step, 1))
    kept.push_back(values[i]);
  return kept;
}

}  // namespace

scale::scale(scale_kind kind, double low, double high, double from, double to)
    : kind_(kind), low_(low), high_(high), from_(from), to_(to) {
  if (!std::isfinite(low_)) low_ = kind_ == scale_kind::linear ? 0 : 1;
  if (kind_ == scale_kind::logarithmic) low_ = std::max(low_, least_positive);
  if (!std::isfinite(high_) || high_ <= low_) high_ = kind_ == scale_kind::logarithmic ? low_ * 2 : low_ + 1;
}

double scale::operator()(double value) const {
  const double inside = std::isfinite(value) ? std::clamp(value, low_, high_) : low_;
  const double share = kind_ == scale_kind::logarithmic ? std::log(inside / low_) / std::log(high_ / low_)
                                                        : (inside - low_) / (high_ - low_);
  return from_ + share * (to_ - from_);
}

std::vector<double> scale::ticks(std::size_t most, double least_step) const {
  return kind_ == scale_kind::logarithmic ? logarithmic_ticks(most) : linear_ticks(most, least_step);
}

std::vector<double> scale::linear_ticks(std::size_t most, double least_step) const {
  const double rough = (high_ - low_) / static_cast<double>(std::max<std::size_t>(most, 2) - 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * (1 - rounding)) {
      step = factor * power;
      break;
    }
  step = std::max(step, least_step);
  std::vector<double> values;
  const auto first = static_cast<int64_t>(std::ceil(low_ / step - rounding));
  const auto last = static_cast<int64_t>(std::floor(high_ / step + rounding));
  for (int64_t i = first; i <= last; ++i)
    values.push_back(static_cast<double>(i) * step);
  if (values.empty()) values.push_back(low_);
  return thinned(values, most);
}

std::vector<double> scale::logarithmic_ticks(std::size_t most) const {
  const auto within = [&](std::initializer_list<double> factors) {
    std::vector<double> values;
    const int first = static_cast<int>(std::floor(std::log10(low_)));
    const int last = static_cast<int>(std::ceil(std::log10(high_)));
    for (int power = first; power <= last; ++power)
      for (const double factor : factors) {
        const double value = factor * std::pow(10.0, power);
        if (value >= low_ * (1 - rounding) && value <= high_ * (1 + rounding)) values.push_back(value);
      }
    return values;
  };
  // The densest set that fits; a short range has round values only between those.
  for (const auto& values : {within({1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9}),
                             within({1, 1.5, 2, 3, 4, 5, 7}), within({1, 2, 5}), within({1, 3}), within({1})})
    if (!values.empty() && values.size() <= most) return values;
  const auto powers = within({1});
  return powers.empty() ? std::vector<double>{low_} : thinned(powers, most);
}

}  // namespace cudal1::charts
