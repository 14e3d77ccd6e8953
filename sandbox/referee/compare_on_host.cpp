// Compiled with -O3 and associative arithmetic (CMakeLists.txt), so that the sums are vectorised. NaN and infinity keep
// their meaning.
#include "sandbox/referee/compare_on_host.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "sandbox/referee/elements.hpp"

namespace cudal1 {
namespace {

constexpr int64_t block = 1024;

// Roundings to a half type are many and alike: of tens of millions of elements the worst is 6 times as far off as they
// are on average (root of the mean square), eager's as well as a variant's.
constexpr double rounding_tail = 8;

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

constexpr double infinity = std::numeric_limits<double>::infinity();

inline bool finite(double x) {
  return std::abs(x) < infinity;
}
// What is allowed, what KernelBench's evaluator allows against eager alone, from which number on the type of the
// outputs has infinity alone, and whether outputs are held against eager alone.
struct limits {
  tolerance allowed, of_eager;
  double infinite = infinity;
  bool eager_alone = false;
};

// Whether an output is finite, infinite or NaN as eager's is. Where eager overflows on its way to a result that is
// finite, an output near the exact one is none the worse, nor is infinity where the type has nothing nearer to it.
inline bool same_class(double v, double e, double d, const limits& l) {
  return (finite(v) && finite(e)) || v == e || (v != v && e != e) ||
         (!l.eager_alone && finite(v) && finite(d) &&
          std::abs(v - d) <= l.allowed.absolute + l.allowed.relative * std::abs(d)) ||
         (v == infinity && d >= l.infinite) || (v == -infinity && d <= -l.infinite);
}

// ---- the expected outputs among themselves --------------------------------------------------------------------------

struct reference_sums {
  expected_sums sums;
  double outside = 0, outside_loose = 0;
};

template <class V, class D>
[[gnu::always_inline]] inline void add_expected(const block_of<V, D>& b, const tolerances& t, reference_sums& s) {
  double count = 0, error = 0, squares = 0, sum = 0, outside = 0, outside_loose = 0;
  for (int64_t i = 0; i < b.count; ++i) {
    const double e = b.eager[i], d = b.exact[i];
    const bool known = finite(d) && finite(e);
    const double gap = known ? std::abs(d - e) : 0.0, size = known ? std::abs(e) : 0.0, dd = known ? d : 0.0;
    outside += gap > t.close.absolute + t.close.relative * size ? 1.0 : 0.0;
    outside_loose += gap > t.loose.absolute + t.loose.relative * size ? 1.0 : 0.0;
    count += known ? 1.0 : 0.0;
    error += gap * gap;
    squares += dd * dd;
    sum += dd;
  }
  s.sums.count += count;
  s.sums.eager_error += error;
  s.sums.squares += squares;
  s.sums.sum += sum;
  s.outside += outside;
  s.outside_loose += outside_loose;
}

// ---- a variant's output ---------------------------------------------------------------------------------------------

struct block_sums {
  double finite = 0, mismatches = 0, outside = 0, outside_eager = 0;
  double largest = 0, excess = -infinity;
  double variant_error = 0;

  void add(const block_sums& o) {
    finite += o.finite;
    mismatches += o.mismatches;
    outside += o.outside;
    outside_eager += o.outside_eager;
    largest = std::max(largest, o.largest);
    excess = std::max(excess, o.excess);
    variant_error += o.variant_error;
  }
};

// How far an element is off beyond what is allowed; -infinity where it is not off, or not finite. Eager's own error is
// not held against an output that is nearer to the exact one.
[[gnu::always_inline]] inline double excess_of(double v, double e, double d, const limits& l) {
  const bool both = finite(v) && finite(e), known = finite(d) && !l.eager_alone;
  const double gap = both ? std::abs(v - e) : 0.0;
  const double exact_gap = both && known ? std::abs(v - d) : gap;
  const double off = exact_gap < gap ? exact_gap : gap;
  return off > 0 ? off - (l.allowed.absolute + l.allowed.relative * std::abs(e)) : -infinity;
}

// Everything in one pass. A comparison with NaN is false, and infinities count as masks.
template <class V, class D>
[[gnu::always_inline]] inline void add_block(const block_of<V, D>& b, const limits& l, block_sums& s) {
  double mismatches = 0, count = 0, variant_error = 0, largest = 0, outside = 0, outside_eager = 0, worst = -infinity;
  for (int64_t i = 0; i < b.count; ++i) {
    const double v = b.value[i], e = b.eager[i], d = b.exact[i];
    const bool both = finite(v) && finite(e), all = both && finite(d);
    mismatches += same_class(v, e, d, l) ? 0.0 : 1.0;
    const double gap = both ? std::abs(v - e) : 0.0;
    largest = gap > largest ? gap : largest;
    const double excess = excess_of(v, e, d, l);
    worst = excess > worst ? excess : worst;
    outside += excess > 0 ? 1.0 : 0.0;
    outside_eager += gap > l.of_eager.absolute + l.of_eager.relative * std::abs(e) ? 1.0 : 0.0;
    count += all ? 1.0 : 0.0;
    const double dv = all ? v - d : 0.0;
    variant_error += dv * dv;
  }
  s = {count, mismatches, outside, outside_eager, largest, worst, variant_error};
}

#define CUDAL1_CLONES [[gnu::target_clones("arch=haswell", "default")]]
CUDAL1_CLONES void add_floats(const block_of<float, double>& b, const limits& l, block_sums& s) {
  add_block(b, l, s);
}
CUDAL1_CLONES void add_doubles(const block_of<double, double>& b, const limits& l, block_sums& s) {
  add_block(b, l, s);
}
CUDAL1_CLONES void add_expected_floats(const block_of<float, double>& b, const tolerances& t, reference_sums& s) {
  add_expected(b, t, s);
}
CUDAL1_CLONES void add_expected_doubles(const block_of<double, double>& b, const tolerances& t, reference_sums& s) {
  add_expected(b, t, s);
}
#undef CUDAL1_CLONES

// What blocks contain: the variant's values, or nothing in their place.
enum class block_values { of_variant, of_expected_alone };

// Calls use(block, flat index of its first element) for all of the output.
template <class Use>
void for_each_block(const compared_output& o, block_values values, Use&& use) {
  const bool with_value = values == block_values::of_variant;
  const bool direct = o.type == dtype::float32 && o.exact_type == dtype::float64;
  static thread_local widened_block wide;
  for (int64_t first = 0; first < o.elements; first += block) {
    const int64_t count = std::min(block, o.elements - first);
    if (direct) {
      use(block_of<float, double>{with_value ? reinterpret_cast<const float*>(o.value) + first : nullptr,
                                  reinterpret_cast<const float*>(o.eager) + first,
                                  reinterpret_cast<const double*>(o.exact) + first, count},
          first);
      continue;
    }
    if (with_value) load_elements(o.type, o.value, first, count, wide.value);
    load_elements(o.type, o.eager, first, count, wide.eager);
    load_elements(o.exact_type, o.exact, first, count, wide.exact);
    use(block_of<double, double>{wide.value, wide.eager, wide.exact, count}, first);
  }
}

reference_sums sum_expected(const compared_output& o, const tolerances& t) {
  reference_sums s;
  for_each_block(o, block_values::of_expected_alone, [&]<class B>(const B& b, int64_t) {
    if constexpr (std::is_same_v<B, block_of<float, double>>)
      add_expected_floats(b, t, s);
    else
      add_expected_doubles(b, t, s);
  });
  return s;
}

// Where doubles cannot tell two int64 apart.
template <class B>
int64_t hidden_differences(const compared_output& o, int64_t first, const B& b) {
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

// The first element of another class, or the one whose excess is the largest. (Which is computed anew: the clones
// above may have rounded otherwise.)
enum class worst_element { first_of_other_class, largest_excess };
template <class B>
void note_worst(const B& b, int64_t first, worst_element wanted, const limits& l, output_check& check) {
  const bool mismatch = wanted == worst_element::first_of_other_class;
  int64_t worst = -1;
  double excess = -infinity;
  for (int64_t i = 0; i < b.count; ++i) {
    const double v = b.value[i], e = b.eager[i];
    if (mismatch && same_class(v, e, b.exact[i], l)) continue;
    const double here = mismatch ? infinity : excess_of(v, e, b.exact[i], l);
    if (!(here > excess)) continue;
    excess = here;
    worst = i;
  }
  if (worst < 0) return;
  check.worst_index = first + worst;
  check.worst_value = b.value[worst];
  check.worst_expected = b.eager[worst];
}

limits limits_of(const compared_output& o, const expected_statistics& s) {
  return {s.within(o.type), kernelbench_tolerance(o.type), least_infinite(o.type), s.allowed.eager_alone};
}

}  // namespace

expected_statistics expected_statistics_of(const compared_output& o, draw_kind kind, const tolerances& plan) {
  const tolerances unscaled = tolerances_on(kind, o.type, 1, plan);
  reference_sums s = sum_expected(o, unscaled);
  expected_statistics result = statistics_of(s.sums);
  result.allowed = tolerances_on(kind, o.type, result.size, plan);
  if (result.allowed != unscaled) s = sum_expected(o, result.allowed);
  result.outside = static_cast<int64_t>(s.outside);
  result.outside_loose = static_cast<int64_t>(s.outside_loose);
  return result;
}

output_check compare_output(const compared_output& o, const expected_statistics& statistics) {
  const limits l = limits_of(o, statistics);
  output_check check;
  check.elements = o.elements;
  statistics.describe(o.type, check);
  block_sums total;
  int64_t hidden = 0;
  for_each_block(o, block_values::of_variant, [&]<class B>(const B& b, int64_t first) {
    block_sums s;
    if constexpr (std::is_same_v<B, block_of<float, double>>)
      add_floats(b, l, s);
    else
      add_doubles(b, l, s);
    hidden += hidden_differences(o, first, b);
    if (s.mismatches > 0 && total.mismatches == 0)
      note_worst(b, first, worst_element::first_of_other_class, l, check);
    else if (total.mismatches == 0 && s.excess > total.excess)
      note_worst(b, first, worst_element::largest_excess, l, check);
    total.add(s);
  });
  check.mask_mismatches = static_cast<int64_t>(total.mismatches);
  check.outside = static_cast<int64_t>(total.outside) + hidden;
  check.outside_eager = static_cast<int64_t>(total.outside_eager) + hidden;
  check.max_absolute = total.largest;
  check.max_excess = total.excess > -infinity ? total.excess : 0;
  const double variant_rms = std::sqrt(total.variant_error / std::max(total.finite, 1.0));
  check.error = relative_error(variant_rms, statistics.size);
  check.signal_error = relative_error(variant_rms, statistics.deviation);
  return check;
}

void add_moved_output(const compared_output& moved, std::span<float> largest) {
  for_each_block(moved, block_values::of_expected_alone, [&]<class B>(const B& b, int64_t first) {
    for (int64_t i = 0; i < b.count; ++i) {
      const double off = std::abs(static_cast<double>(b.eager[i]) - b.exact[i]);
      float& most = largest[static_cast<std::size_t>(first + i)];
      if (finite(off)) most = std::max(most, static_cast<float>(off));
    }
  });
}

namespace {

// Whether eager's error on the output may be small by chance, since all but few elements of the exact one are 0.
bool is_nearly_all_zero(const compared_output& o) {
  int64_t others = 0;
  for_each_block(o, block_values::of_expected_alone, [&]<class B>(const B& b, int64_t) {
    for (int64_t i = 0; i < b.count; ++i)
      others += b.exact[i] != 0 ? 1 : 0;
  });
  return others <= few_elements;
}

}  // namespace

void allow_rounding(const compared_output& o, const expected_statistics& statistics, draw_kind kind,
                    std::span<const float> moved, output_check& check) {
  const bool raises = check.outside > 0 || is_nearly_all_zero(o);
  const limits l = limits_of(o, statistics);
  const double tail = is_half(o.type) ? rounding_tail * statistics.error * statistics.size : 0;
  check.outside = 0;
  check.max_excess = 0;
  if (!moved.empty() && raises) {
    double squares = 0;
    for (const float off : moved)
      squares += static_cast<double>(off) * off;
    const double rms = std::sqrt(squares / static_cast<double>(moved.size()));
    statistics.raise_errors(relative_error(rms, statistics.size), kind, check);
  }
  for_each_block(o, block_values::of_variant, [&]<class B>(const B& b, int64_t first) {
    for (int64_t i = 0; i < b.count; ++i) {
      const double v = b.value[i], e = b.eager[i], d = b.exact[i];
      double excess = excess_of(v, e, d, l);
      if (!(excess > 0)) continue;
      if (!l.eager_alone && tail > 0 && finite(d)) excess = std::min(excess, std::abs(v - d) - tail);
      if (!l.eager_alone && !moved.empty())
        excess -= rounding_allowance(moved[static_cast<std::size_t>(first + i)], e, statistics.size, kind);
      if (!(excess > 0)) continue;
      ++check.outside;
      if (excess <= check.max_excess) continue;
      check.max_excess = excess;
      check.worst_index = first + i;
      check.worst_value = v;
      check.worst_expected = e;
    }
  });
}

}  // namespace cudal1
