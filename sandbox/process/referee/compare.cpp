// Compiled with -O3 and associative arithmetic (CMakeLists.txt): the sums below may be split into lanes. NaN and
// infinity keep their meaning.
#include "sandbox/process/referee/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sandbox/process/referee/elements.hpp"

namespace cudal1 {
namespace {

constexpr int64_t block = 1024;

struct block_values {
  alignas(64) double value[block], eager[block], exact[block];
  int64_t count = 0;
};

struct block_sums {
  double finite = 0, mismatches = 0;
  double outside = 0, reference_outside = 0, outside_loose = 0, reference_outside_loose = 0;
  double largest = 0;
  double variant_error = 0, eager_error = 0, exact_squares = 0, exact_sum = 0;

  void add(const block_sums& o) {
    finite += o.finite;
    mismatches += o.mismatches;
    outside += o.outside;
    reference_outside += o.reference_outside;
    outside_loose += o.outside_loose;
    reference_outside_loose += o.reference_outside_loose;
    largest = std::max(largest, o.largest);
    variant_error += o.variant_error;
    eager_error += o.eager_error;
    exact_squares += o.exact_squares;
    exact_sum += o.exact_sum;
  }
};

constexpr double infinity = std::numeric_limits<double>::infinity();

inline bool finite(double x) {
  return std::abs(x) < infinity;
}
inline bool same_class(double a, double b) {
  return (finite(a) && finite(b)) || a == b || (a != a && b != b);
}

[[gnu::target_clones("arch=haswell", "default")]] void add_errors(const block_values& b, block_sums& s) {
  double mismatches = 0, count = 0, variant_error = 0, eager_error = 0, squares = 0, sum = 0, largest = 0;
  for (int64_t i = 0; i < b.count; ++i) {
    const double v = b.value[i], e = b.eager[i], d = b.exact[i];
    const bool both = finite(v) && finite(e);
    mismatches += both || v == e || (v != v && e != e) ? 0.0 : 1.0;
    const double gap = both ? std::abs(v - e) : 0.0;
    largest = gap > largest ? gap : largest;
    const bool all = both && finite(d);
    count += all ? 1.0 : 0.0;
    const double dv = all ? v - d : 0.0, de = all ? e - d : 0.0, dd = all ? d : 0.0;
    variant_error += dv * dv;
    eager_error += de * de;
    squares += dd * dd;
    sum += dd;
  }
  s.mismatches = mismatches;
  s.finite = count;
  s.variant_error = variant_error;
  s.eager_error = eager_error;
  s.exact_squares = squares;
  s.exact_sum = sum;
  s.largest = largest;
}

[[gnu::target_clones("arch=haswell", "default")]] void add_outside(const block_values& b, const tolerance& t,
                                                                   double& outside, double& reference_outside) {
  double of_variant = 0, of_exact = 0;
  for (int64_t i = 0; i < b.count; ++i) {
    const double v = b.value[i], e = b.eager[i], d = b.exact[i];
    const double allowed = t.absolute + t.relative * std::abs(e);
    // A comparison with NaN is false, and infinities were counted as masks.
    of_variant += finite(v) && finite(e) && std::abs(v - e) > allowed ? 1.0 : 0.0;
    of_exact += finite(d) && finite(e) && std::abs(d - e) > allowed ? 1.0 : 0.0;
  }
  outside = of_variant;
  reference_outside = of_exact;
}

void note_worst(const block_values& b, int64_t first, bool mismatch, double largest, output_check& check) {
  for (int64_t i = 0; i < b.count; ++i) {
    const double v = b.value[i], e = b.eager[i];
    if (mismatch ? same_class(v, e) : !(finite(v) && finite(e) && std::abs(v - e) >= largest)) continue;
    check.worst_index = first + i;
    check.worst_value = v;
    check.worst_expected = e;
    return;
  }
}

// Where doubles cannot tell two int64 apart.
int64_t hidden_differences(const compared_output& o, int64_t first, const block_values& b) {
  if (o.type != dtype::int64) return 0;
  int64_t found = 0;
  for (int64_t i = 0; i < b.count; ++i) {
    int64_t v = 0, e = 0;
    std::memcpy(&v, o.value + (first + i) * 8, 8);
    std::memcpy(&e, o.eager + (first + i) * 8, 8);
    found += v != e && b.value[i] == b.eager[i] ? 1 : 0;
  }
  return found;
}

double ratio(double numerator, double denominator) {
  if (numerator == 0) return 0;
  return denominator > 0 ? numerator / denominator : infinity;
}

void finish(const block_sums& s, output_check& check) {
  check.mask_mismatches = static_cast<int64_t>(s.mismatches);
  check.outside += static_cast<int64_t>(s.outside);
  check.reference_outside = static_cast<int64_t>(s.reference_outside);
  check.outside_loose += static_cast<int64_t>(s.outside_loose);
  check.reference_outside_loose = static_cast<int64_t>(s.reference_outside_loose);
  check.max_absolute = s.largest;
  const double n = std::max(s.finite, 1.0);
  const double variant_rms = std::sqrt(s.variant_error / n), eager_rms = std::sqrt(s.eager_error / n);
  const double size = std::sqrt(s.exact_squares / n), mean = s.exact_sum / n;
  const double deviation = std::sqrt(std::max(s.exact_squares / n - mean * mean, 0.0));
  check.error = ratio(variant_rms, size);
  check.reference_error = ratio(eager_rms, size);
  check.signal_error = ratio(variant_rms, deviation);
  check.reference_signal_error = ratio(eager_rms, deviation);
}

}  // namespace

output_check compare_output(const compared_output& o, const tolerance& close, const tolerance& loose) {
  output_check check;
  check.elements = o.elements;
  const bool exactly = !is_floating(o.type);
  const tolerance none{0, 0};
  block_sums total;
  bool mismatch_noted = false;
  static thread_local block_values b;
  for (int64_t first = 0; first < o.elements; first += block) {
    b.count = std::min(block, o.elements - first);
    load_elements(o.type, o.value, first, b.count, b.value);
    load_elements(o.type, o.eager, first, b.count, b.eager);
    load_elements(o.exact_type, o.exact, first, b.count, b.exact);
    block_sums s;
    add_errors(b, s);
    add_outside(b, exactly ? none : close, s.outside, s.reference_outside);
    add_outside(b, exactly ? none : loose, s.outside_loose, s.reference_outside_loose);
    const int64_t hidden = hidden_differences(o, first, b);
    check.outside += hidden;
    check.outside_loose += hidden;
    if (s.mismatches > 0 && !mismatch_noted) {
      mismatch_noted = true;
      note_worst(b, first, true, 0, check);
    } else if (!mismatch_noted && s.largest > total.largest) {
      note_worst(b, first, false, s.largest, check);
    }
    total.add(s);
  }
  finish(total, check);
  return check;
}

}  // namespace cudal1
