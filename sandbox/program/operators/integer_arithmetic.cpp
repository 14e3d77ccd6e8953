#include "sandbox/program/operators/integer_arithmetic.hpp"

#include <algorithm>

#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

bool divides(const operator_record& r) {
  return r.name().starts_with("aten::div") || (r.traits.rows && r.traits.rows->form == row_form::mean) ||
         (r.kind == operator_kind::pool && r.traits.sums);
}

bool is_linear(const operator_record& r) {
  switch (r.kind) {
    case operator_kind::product:
    case operator_kind::contraction:
    case operator_kind::view:
    case operator_kind::copy:
    case operator_kind::rearrangement:
    case operator_kind::list:
    case operator_kind::join:
    case operator_kind::creation:
    case operator_kind::pool:
      return true;
    case operator_kind::convolution:  // but not with an activation
      return r.traits.changes.what == effect::mixed_linear;
    case operator_kind::pointwise:
      return r.traits.linear != linearity::none || r.traits.clips.has_value();
    default:
      return r.traits.sums || selects_elements(r);
  }
}

integer_arithmetic of_step(const operator_record& r) {
  if (!is_linear(r)) return integer_arithmetic::other;
  return divides(r) || r.kind == operator_kind::convolution ? integer_arithmetic::linear : integer_arithmetic::exact;
}

}  // namespace

integer_arithmetic integer_arithmetic_of(const checked_program& p) {
  if (!p.is_pure_aten()) return integer_arithmetic::other;
  integer_arithmetic least = integer_arithmetic::exact;
  for (const auto& call : p.calls)
    if (call.op != nullptr) least = std::min(least, of_step(work_parts::record_of(call)));
  return least;
}

}  // namespace cudal1
