#include "policy/prompt/quantities.hpp"

#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace cudal1 {

namespace {

using unit = std::pair<double, const char*>;  // its size, and its name

// Three significant digits of a number above 0.
std::string digits(double v) {
  if (v >= 99.95) return fmt::format("{:.0f}", v);
  return v >= 9.995 ? fmt::format("{:.1f}", v) : fmt::format("{:.2f}", v);
}

// In the largest unit that is not above the value; `units` are in descending order.
std::string in_unit(double v, std::span<const unit> units) {
  for (const auto& [size, name] : units)
    if (v >= size) return digits(v / size) + " " + name;
  return digits(v / units.back().first) + " " + units.back().second;
}

}  // namespace

std::string time_text(double microseconds) {
  static constexpr unit units[] = {{1e6, "s"}, {1e3, "ms"}, {1, "us"}};
  return microseconds > 0 ? in_unit(microseconds, units) : "unknown";
}

std::string size_text(double bytes) {
  static constexpr unit units[] = {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
  return bytes < 1000 ? fmt::format("{:.0f} B", bytes) : in_unit(bytes, units);
}

std::string flops_text(double flops) {
  static constexpr unit units[] = {{1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}, {1e3, "kFLOP"}, {1, "FLOP"}};
  return flops > 0 ? in_unit(flops, units) : "no arithmetic";
}

std::string score_text(const measured_score& s) {
  return fmt::format("{}x, 95% interval [{}, {}]", digits(s.score), digits(s.score_interval.low),
                     digits(s.score_interval.high));
}

}  // namespace cudal1
