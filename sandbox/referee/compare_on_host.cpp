// Compiled with -O3 and associative arithmetic (CMakeLists.txt), so that the sums are vectorised. NaN and infinity keep
// their meaning.
#include "sandbox/referee/compare_on_host.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sandbox/referee/elements.hpp"

namespace cudal1 {
namespace {

constexpr int64_t block = 1024;

// The operands of one block. float32 outputs are read in place; all other types are first converted to double.
template <class V, class D>
struct block_of {
  const V* value;
  const V* eager;
  const D* exact;
  int64_t count;
};

struct widened_block {
  alignas(64) double value[block], eager[block], exact[block];
};

struct limits {
  tolerance close, loose;
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

// All sums in one pass. A comparison with NaN is false, and infinities count as mask mismatches.
template <class V, class D>
[[gnu::always_inline]] inline void add_block(const block_of<V, D>& b, const limits& t, block_sums& s) {
  double mismatches = 0, count = 0, variant_error = 0, eager_error = 0, squares = 0, sum = 0, largest = 0;
  double outside = 0, reference_outside = 0, outside_loose = 0, reference_outside_loose = 0;
  for (int64_t i = 0; i < b.count; ++i) {
    const double v = b.value[i], e = b.eager[i], d = b.exact[i];
    const bool both = finite(v) && finite(e), known = finite(d) && finite(e);
    mismatches += both || v == e || (v != v && e != e) ? 0.0 : 1.0;
    const double gap = both ? std::abs(v - e) : 0.0, reference_gap = known ? std::abs(d - e) : 0.0;
    largest = gap > largest ? gap : largest;
    const double size = std::abs(e);
    const double allowed = t.close.absolute + t.close.relative * size;
    const double allowed_loose = t.loose.absolute + t.loose.relative * size;
    // An output that is nearer to the exact one is not penalised for eager's error.
    const double exact_gap = both && known ? std::abs(v - d) : gap;
    const double off = exact_gap < gap ? exact_gap : gap;
    outside += off > allowed ? 1.0 : 0.0;
    outside_loose += off > allowed_loose ? 1.0 : 0.0;
    reference_outside += reference_gap > allowed ? 1.0 : 0.0;
    reference_outside_loose += reference_gap > allowed_loose ? 1.0 : 0.0;
    const bool all = both && known;
    count += all ? 1.0 : 0.0;
    const double dv = all ? v - d : 0.0, de = all ? e - d : 0.0, dd = all ? d : 0.0;
    variant_error += dv * dv;
    eager_error += de * de;
    squares += dd * dd;
    sum += dd;
  }
  s = {count,
       mismatches,
       outside,
       reference_outside,
       outside_loose,
       reference_outside_loose,
       largest,
       variant_error,
       eager_error,
       squares,
       sum};
}

#define CUDAL1_CLONES [[gnu::target_clones("arch=haswell", "default")]]
CUDAL1_CLONES void add_floats(const block_of<float, double>& b, const limits& t, block_sums& s) {
  add_block(b, t, s);
}
CUDAL1_CLONES void add_doubles(const block_of<double, double>& b, const limits& t, block_sums& s) {
  add_block(b, t, s);
}
#undef CUDAL1_CLONES

template <class V, class D>
void note_worst(const block_of<V, D>& b, int64_t first, bool mismatch, double largest, output_check& check) {
  for (int64_t i = 0; i < b.count; ++i) {
    const double v = b.value[i], e = b.eager[i];
    if (mismatch ? same_class(v, e) : !(finite(v) && finite(e) && std::abs(v - e) >= largest)) continue;
    check.worst_index = first + i;
    check.worst_value = v;
    check.worst_expected = e;
    return;
  }
}

// The number of int64 that differ although they are equal as doubles.
int64_t hidden_differences(const compared_output& o, int64_t first, const block_of<double, double>& b) {
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
  // On the CPU, eager as shipped is strict.
  check.strict_error = check.reference_error;
  check.strict_signal_error = check.reference_signal_error;
}

// The sums of the blocks so far, and the place of the largest deviation.
class running_check {
 public:
  explicit running_check(int64_t elements) { check_.elements = elements; }

  template <class V, class D>
  void add(const block_of<V, D>& b, int64_t first, const block_sums& s, int64_t hidden) {
    check_.outside += hidden;
    check_.outside_loose += hidden;
    if (s.mismatches > 0 && !mismatch_noted_) {
      mismatch_noted_ = true;
      note_worst(b, first, true, 0, check_);
    } else if (!mismatch_noted_ && s.largest > total_.largest) {
      note_worst(b, first, false, s.largest, check_);
    }
    total_.add(s);
  }
  output_check result() {
    finish(total_, check_);
    return check_;
  }

 private:
  output_check check_;
  block_sums total_;
  bool mismatch_noted_ = false;
};

}  // namespace

output_check compare_output(const compared_output& o, const tolerance& close, const tolerance& loose) {
  const tolerance none{0, 0};
  const limits t = is_floating(o.type) ? limits{close, loose} : limits{none, none};
  const bool direct = o.type == dtype::float32 && o.exact_type == dtype::float64;
  running_check running(o.elements);
  static thread_local widened_block wide;
  for (int64_t first = 0; first < o.elements; first += block) {
    const int64_t count = std::min(block, o.elements - first);
    block_sums s;
    if (direct) {
      const block_of<float, double> b{reinterpret_cast<const float*>(o.value) + first,
                                      reinterpret_cast<const float*>(o.eager) + first,
                                      reinterpret_cast<const double*>(o.exact) + first, count};
      add_floats(b, t, s);
      running.add(b, first, s, 0);
      continue;
    }
    load_elements(o.type, o.value, first, count, wide.value);
    load_elements(o.type, o.eager, first, count, wide.eager);
    load_elements(o.exact_type, o.exact, first, count, wide.exact);
    const block_of<double, double> b{wide.value, wide.eager, wide.exact, count};
    add_doubles(b, t, s);
    running.add(b, first, s, hidden_differences(o, first, b));
  }
  return running.result();
}

}  // namespace cudal1
