#include "sandbox/referee/expected_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cudal1 {

tolerance kernelbench_tolerance(dtype type) {
  if (!is_floating(type)) return {0, 0};
  return is_half(type) ? tolerance{1e-2, 1e-2} : tolerance{1e-4, 1e-4};
}

tolerances tolerances_on(draw_kind kind, dtype type, double size, const tolerances& plan) {
  constexpr tolerance equal{0, 0};
  if (kind == draw_kind::declared && is_floating(type) && !plan.sized) return plan;
  if (!is_floating(type)) return {equal, equal, plan.eager_alone && kind == draw_kind::declared};
  const double scale = std::isfinite(size) ? std::max(1.0, size) : 1.0;
  tolerances scaled = plan;
  scaled.eager_alone = false;
  scaled.close.absolute *= scale;
  scaled.loose.absolute *= scale;
  if (kind == draw_kind::small_integers && !plan.sized) scaled.close = equal;
  return scaled;
}

namespace {

// Of an output, at most so many elements outside of the tolerance, or this share of them, may be a matter of rounding.
constexpr int64_t few_outside = 8, share_outside = 1000;
// Of an output of at most so many elements it is looked whether few are not 0, which costs runs on moved inputs.
constexpr int64_t most_looked_at = 1 << 16;
// Below these gates 3 and 4 have nothing against an output (verifier.cpp's floors).
constexpr double least_error = 1e-6, least_error_float64 = 1e-12, least_signal = 1e-3;
constexpr double no_signal = 1e6;  // the multiple of its variation by which an output is larger that gate 4 leaves out

// The multiple of a float32 program's error that gate 3 allows; and the most that is held against the task on the
// declared draws, since its result may also jump between two neighbouring inputs.
constexpr double factor = 32, most_declared = 3e-4;

}  // namespace

double rounding_allowance(double moved, double expected, double size, draw_kind kind) {
  return factor *
         (kind == draw_kind::declared ? std::min(moved, most_declared * std::max(size, std::abs(expected))) : moved);
}

bool expected_statistics::is_loose(dtype type) const {
  return is_half(type) || (!allowed.eager_alone && (outside > 0 || strict_outside > 0));
}

void expected_statistics::describe(dtype type, output_check& check) const {
  check.loose = is_loose(type);
  check.within = within(type);
  check.reference_outside = outside;
  check.reference_outside_loose = outside_loose;
  check.reference_error = error;
  check.reference_signal_error = signal_error;
  check.strict_error = strict_error;
  check.strict_signal_error = strict_signal_error;
  check.strict_outside = strict_outside;
  check.expected_mean = mean;
}

void expected_statistics::raise_errors(double moved, draw_kind kind, output_check& check) const {
  const double seen = kind == draw_kind::declared ? std::min(moved, most_declared) : moved;
  const double of_signal = relative_error(seen * size, deviation);
  check.reference_error = std::max(check.reference_error, seen);
  check.strict_error = std::max(check.strict_error, seen);
  check.reference_signal_error = std::max(check.reference_signal_error, of_signal);
  check.strict_signal_error = std::max(check.strict_signal_error, of_signal);
}

bool has_few_elements(const tensor_type& type) {
  return is_floating(type.type) && type.numel() > 0 && type.numel() <= few_elements;
}

bool may_be_rounding(const output_check& check, const tensor_type& type) {
  if (!is_floating(type.type) || check.mask_mismatches > 0) return false;
  const bool has_error = check.error > (type.type == dtype::float64 ? least_error_float64 : least_error);
  if (has_few_elements(type) && !is_half(type.type))
    return check.outside > 0 || (check.signal_error > least_signal && check.signal_error <= no_signal * check.error) ||
           has_error;
  if (check.outside == 0 && !is_half(type.type))
    return has_error && check.error > factor * check.strict_error && check.elements <= most_looked_at;
  return check.outside > 0 && check.outside <= std::max(few_outside, check.elements / share_outside) &&
         !(check.loose && check.reference_outside_loose > 0);
}

double unit_in_last_place(dtype type) {
  switch (type) {
    case dtype::float16:
      return 0x1p-10;
    case dtype::bfloat16:
      return 0x1p-7;
    case dtype::float32:
      return 0x1p-23;
    default:
      return 0x1p-52;
  }
}

expected_statistics statistics_of(const expected_sums& sums) {
  const double n = std::max(sums.count, 1.0), eager_rms = std::sqrt(sums.eager_error / n);
  expected_statistics s;
  s.compared = sums.count;
  s.mean = sums.sum / n;
  s.size = std::sqrt(sums.squares / n);
  s.deviation = std::sqrt(std::max(sums.squares / n - s.mean * s.mean, 0.0));
  s.error = s.strict_error = relative_error(eager_rms, s.size);
  s.signal_error = s.strict_signal_error = relative_error(eager_rms, s.deviation);
  return s;
}

double relative_error(double error, double size) {
  if (error == 0) return 0;
  return size > 0 ? error / size : std::numeric_limits<double>::infinity();
}

}  // namespace cudal1
