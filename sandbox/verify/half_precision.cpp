#include "sandbox/verify/half_precision.hpp"

#include <cmath>

#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

int64_t count_products(const checked_program& p) {
  int64_t all = 0;
  for (std::size_t i = 0; i < p.calls.size(); ++i) {
    const auto& call = p.calls[i];
    if (call.op == nullptr || p.results[i].empty() || p.results[i].front().type.type != dtype::float32) continue;
    switch (work_parts::record_of(call).kind) {
      case operator_kind::product:
      case operator_kind::contraction:
      case operator_kind::convolution:
        ++all;
        break;
      case operator_kind::attention:
      case operator_kind::recurrent:
        all += 2;
        break;
      default:
        break;
    }
  }
  return all;
}

double half_precision_error(const checked_program& p) {
  return 0x1p-10 * std::sqrt(static_cast<double>(count_products(p)));
}

}  // namespace cudal1
