#include "sandbox/verify/conditioning.hpp"

#include <algorithm>
#include <cmath>

namespace cudal1 {

namespace {

constexpr double tolerance_of_result = 1e-2;
// Two results that have nothing in common differ by 1.4 times their size; an exact output of zero by any factor.
constexpr double unrelated = 2;

double error_of(const output_check& o) {
  const double worse = std::max(o.reference_error, o.strict_error);
  return std::isfinite(worse) && worse <= unrelated ? worse : 0;
}

bool is_far_off(const output_check& o) {
  return o.reference_outside_loose > 0 || error_of(o) > tolerance_of_result;
}

}  // namespace

std::string why_ill_conditioned(const task& t, const check_report& report) {
  const output_check* worst = nullptr;
  for (const auto& d : report.draws) {
    if (d.draw.kind != draw_kind::declared) continue;
    for (const auto& o : d.outputs) {
      const auto type = t.reference.types.find(o.name);
      if (type == t.reference.types.end() || !is_floating(type->second.type) || is_half(type->second.type)) continue;
      if (is_far_off(o) && (worst == nullptr || error_of(o) > error_of(*worst))) worst = &o;
    }
  }
  if (worst == nullptr) return "";
  return fmt::format(
      "the task's own {} in float32 differs from the exact result by {:.3g}% (root mean square); {} of {} elements "
      "differ by more than 1e-2",
      worst->name, 100 * std::max(worst->reference_error, worst->strict_error), worst->reference_outside_loose,
      worst->elements);
}

}  // namespace cudal1
