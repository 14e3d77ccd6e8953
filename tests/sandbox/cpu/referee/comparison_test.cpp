// Outputs against expected ones on the host, number by number.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "sandbox/referee/compare_on_host.hpp"
#include "sandbox/referee/elements.hpp"

namespace cudal1 {
namespace {

struct three {
  std::vector<float> value, eager;
  std::vector<double> exact;
  explicit three(std::size_t n) : value(n), eager(n), exact(n) {
    std::mt19937 random(11);
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < n; ++i) {
      exact[i] = normal(random);
      value[i] = eager[i] = static_cast<float>(exact[i]);
    }
  }
  compared_output all() const {
    return {.type = dtype::float32,
            .exact_type = dtype::float64,
            .elements = static_cast<int64_t>(value.size()),
            .value = reinterpret_cast<const std::byte*>(value.data()),
            .eager = reinterpret_cast<const std::byte*>(eager.data()),
            .exact = reinterpret_cast<const std::byte*>(exact.data())};
  }
  expected_statistics statistics(draw_kind kind = draw_kind::declared) const {
    return expected_statistics_of(all(), kind, {{1e-4, 1e-4}, {1e-2, 1e-2}});
  }
  output_check compare(draw_kind kind = draw_kind::declared) const { return compare_output(all(), statistics(kind)); }
  void scale(double factor) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      exact[i] *= factor;
      value[i] = eager[i] = static_cast<float>(exact[i]);
    }
  }
};

TEST(comparison, equal_outputs_have_eagers_own_error) {
  const auto check = three(5000).compare();
  EXPECT_EQ(check.elements, 5000);
  EXPECT_EQ(check.outside, 0);
  EXPECT_EQ(check.mask_mismatches, 0);
  EXPECT_EQ(check.max_absolute, 0);
  EXPECT_EQ(check.error, check.reference_error);
  EXPECT_GT(check.error, 1e-9);
  EXPECT_LT(check.error, 1e-7);
}

TEST(comparison, eagers_overflow_is_not_held_against_the_right_result) {
  three t(5000);
  const float infinite = std::numeric_limits<float>::infinity();
  for (const float eager : {infinite, -infinite, std::numeric_limits<float>::quiet_NaN()}) {
    t.eager[7] = eager;
    t.value[7] = static_cast<float>(t.exact[7]);
    EXPECT_EQ(t.compare().mask_mismatches, 0);
    t.value[7] = eager;
    EXPECT_EQ(t.compare().mask_mismatches, 0);
    t.value[7] = static_cast<float>(t.exact[7]) + 1e-2F;
    const output_check wrong = t.compare();
    EXPECT_EQ(wrong.mask_mismatches, 1);
    EXPECT_EQ(wrong.worst_index, 7);
  }
  t.eager[7] = t.value[7] = static_cast<float>(t.exact[7]);
  t.value[8] = infinite;
  EXPECT_EQ(t.compare().mask_mismatches, 1) << "it overflows where eager does not";
}

TEST(comparison, infinity_is_right_where_the_type_has_nothing_nearer) {
  three t(5000);
  const float infinite = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  const double beyond = least_infinite(dtype::float32), below = std::nextafter(beyond, 0.0);
  EXPECT_EQ(static_cast<float>(beyond), infinite);
  EXPECT_EQ(static_cast<float>(below), largest);
  const auto mismatches = [&](float value, float eager, double exact) {
    t.value[7] = value, t.eager[7] = eager, t.exact[7] = exact;
    return t.compare().mask_mismatches;
  };
  for (const float sign : {1.0F, -1.0F}) {
    EXPECT_EQ(mismatches(sign * infinite, sign * largest, sign * beyond), 0);
    EXPECT_EQ(mismatches(sign * infinite, std::numeric_limits<float>::quiet_NaN(), sign * 1e39), 0);
    EXPECT_EQ(mismatches(sign * infinite, sign * largest, sign * static_cast<double>(infinite)), 0);
    EXPECT_EQ(mismatches(sign * infinite, sign * largest, sign * below), 1);
    EXPECT_EQ(mismatches(sign * infinite, sign * largest, -sign * beyond), 1);
    EXPECT_EQ(mismatches(std::numeric_limits<float>::quiet_NaN(), sign * largest, sign * beyond), 1);
  }
}

TEST(comparison, each_type_has_its_own_least_infinite_number) {
  EXPECT_EQ(least_infinite(dtype::float16), 65520);
  for (const auto& [type, largest_exponent, fraction_bits] :
       {std::tuple{dtype::float16, 15, 10}, {dtype::bfloat16, 127, 7}, {dtype::float32, 127, 23}}) {
    const double largest = std::ldexp(2 - std::ldexp(1, -fraction_bits), largest_exponent);
    const double next = std::ldexp(1, largest_exponent + 1);
    EXPECT_EQ(least_infinite(type), (largest + next) / 2);
  }
  EXPECT_TRUE(std::isinf(least_infinite(dtype::float64)) && std::isinf(least_infinite(dtype::int64)));
}

// As KernelBench's evaluator: what is right, and near what eager would be on other inputs, is outside all the same.
TEST(comparison, eager_alone_counts_on_declared_draws_where_it_is_asked_for) {
  three t(5000);
  t.eager[7] += 5e-3F;  // eager's own error: the value is the exact one
  t.eager[8] = std::numeric_limits<float>::infinity();
  const tolerances as_kernelbench{{1e-4, 1e-4}, {1e-2, 1e-2}, true};
  const auto compared = [&](draw_kind kind, const tolerances& plan) {
    return compare_output(t.all(), expected_statistics_of(t.all(), kind, plan));
  };
  EXPECT_EQ(t.compare().outside, 0);
  EXPECT_TRUE(t.compare().loose);
  const auto statistics = expected_statistics_of(t.all(), draw_kind::declared, as_kernelbench);
  output_check check = compared(draw_kind::declared, as_kernelbench);
  EXPECT_EQ(check.outside, 1);
  EXPECT_EQ(check.mask_mismatches, 1);
  EXPECT_FALSE(check.loose);
  EXPECT_EQ(check.within.absolute, 1e-4);
  const std::vector<float> moved(5000, 1.0F);
  allow_rounding(t.all(), statistics, draw_kind::declared, moved, check);
  EXPECT_EQ(check.outside, 1);
  EXPECT_EQ(check.worst_index, 7);
  EXPECT_EQ(compared(draw_kind::standard_normal, as_kernelbench).outside, 0) << "KernelBench has no such draws";
}

TEST(comparison, absolute_tolerances_grow_with_the_output_where_it_is_asked_for) {
  tolerances plan{{1e-2, 1e-2}, {1e-2, 1e-2}};
  EXPECT_EQ(tolerances_on(draw_kind::declared, dtype::float32, 30, plan).close.absolute, 1e-2);
  plan.sized = true;
  EXPECT_EQ(tolerances_on(draw_kind::declared, dtype::float32, 30, plan).close.absolute, 0.3);
  EXPECT_EQ(tolerances_on(draw_kind::declared, dtype::float32, 0.1, plan).close.absolute, 1e-2);
  EXPECT_EQ(tolerances_on(draw_kind::declared, dtype::float32, 30, plan).close.relative, 1e-2);
  EXPECT_EQ(tolerances_on(draw_kind::declared, dtype::int32, 30, plan).close.absolute, 0);
  EXPECT_EQ(tolerances_on(draw_kind::small_integers, dtype::float32, 30, plan).close.absolute, 0.3)
      << "what was computed before a product may have more bits than its operands";
}

// Elements 7 and 8 are off alike; on moved inputs eager is off at 7 alone.
TEST(comparison, rounding_explains_only_the_elements_that_it_moves) {
  three t(5000);
  t.value[7] += 2e-3F;
  t.value[8] += 2e-3F;
  output_check check = t.compare(draw_kind::outlier_below);
  ASSERT_EQ(check.outside, 2);
  std::vector<float> moved(5000, 0.0F);
  three other = t;
  other.eager[7] += 1e-4F;
  add_moved_output(other.all(), moved);
  other.eager[7] = std::numeric_limits<float>::infinity();
  add_moved_output(other.all(), moved);
  allow_rounding(t.all(), t.statistics(draw_kind::outlier_below), draw_kind::outlier_below, moved, check);
  EXPECT_EQ(check.outside, 1);
  EXPECT_EQ(check.worst_index, 8);
  EXPECT_GT(check.max_excess, 1e-3);
}

// 32 times what rounding did, and no more; on the declared draw at most a multiple of the output's size.
TEST(comparison, rounding_explains_a_bounded_multiple) {
  three t(5000);
  t.value[7] += 5e-3F;
  std::vector<float> moved(5000, 0.0F);
  const auto outside = [&](float off, draw_kind kind) {
    moved[7] = off;
    output_check check = t.compare(kind);
    allow_rounding(t.all(), t.statistics(kind), kind, moved, check);
    return check.outside;
  };
  EXPECT_EQ(outside(1.6e-4F, draw_kind::outlier_below), 0);
  EXPECT_EQ(outside(1e-4F, draw_kind::outlier_below), 1);
  EXPECT_EQ(outside(1.6e-4F, draw_kind::declared), 0);
  t.value[7] += 5e-2F;
  EXPECT_EQ(outside(1, draw_kind::outlier_below), 0);
  EXPECT_EQ(outside(1, draw_kind::declared), 1);
}

// Eager's error on few elements may be small by chance, also where the others are 0; on many it is what it is.
TEST(comparison, rounding_explains_errors_of_few_elements_that_are_not_0) {
  const tensor_type type = contiguous(dtype::float32, {640});
  const auto reference_error = [&](bool nearly_all_zero, double off) {
    three t(640);
    for (std::size_t i = 0; nearly_all_zero && i < t.exact.size(); ++i)
      t.exact[i] = t.eager[i] = t.value[i] = 0;
    t.exact[5] = t.eager[5] = 0x1p-10F;
    t.value[5] = t.eager[5] + static_cast<float>(off);
    const std::vector<float> moved(640, 1e-8F);
    output_check check = t.compare();
    EXPECT_EQ(check.outside, 0);
    if (!may_be_rounding(check, type)) return -1.0;
    allow_rounding(t.all(), t.statistics(), draw_kind::declared, moved, check);
    EXPECT_EQ(check.strict_error, check.reference_error);
    return check.reference_error;
  };
  EXPECT_NEAR(reference_error(true, 3e-7), 1e-8 * std::sqrt(640) * 0x1p10, 1e-6);
  EXPECT_EQ(reference_error(true, 1e-11), -1);  // nothing is held against it
  EXPECT_LT(reference_error(false, 8e-5), 1e-7);
}

// Eager's errors have a root of their mean square of 2e-3: 6 of them are a tail, 12 are none.
TEST(comparison, the_tail_of_roundings_to_a_half_type_is_no_error) {
  constexpr std::size_t n = 5000;
  std::vector<uint16_t> value(n), eager(n);
  std::vector<double> exact(n);
  const auto bits = [](double x) {
    const auto f = static_cast<float>(x);
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(f) >> 16);
  };
  for (std::size_t i = 0; i < n; ++i) {
    exact[i] = 0.05;
    value[i] = eager[i] = bits(i % 2 == 0 ? 0.048 : 0.052);
  }
  const auto outside = [&](double off) {
    value[7] = bits(exact[7] + off);
    const compared_output all{.type = dtype::bfloat16,
                              .exact_type = dtype::float64,
                              .elements = n,
                              .value = reinterpret_cast<const std::byte*>(value.data()),
                              .eager = reinterpret_cast<const std::byte*>(eager.data()),
                              .exact = reinterpret_cast<const std::byte*>(exact.data())};
    const auto statistics = expected_statistics_of(all, draw_kind::declared, {{1e-2, 1e-2}, {1e-2, 1e-2}});
    output_check check = compare_output(all, statistics);
    EXPECT_EQ(check.outside, 1);
    allow_rounding(all, statistics, draw_kind::declared, {}, check);
    return check.outside;
  };
  EXPECT_EQ(outside(0.0135), 0);
  EXPECT_EQ(outside(0.024), 1);
}

TEST(comparison, figures_agree_with_a_plain_loop) {
  three t(4097);
  std::mt19937 random(3);
  std::normal_distribution<float> noise(0, 1e-3F);
  double error = 0, size = 0, sum = 0, largest = 0, excess = -1;
  int64_t outside = 0, worst = -1;
  for (std::size_t i = 0; i < t.value.size(); ++i) {
    t.value[i] += noise(random);
    const double gap = std::abs(static_cast<double>(t.value[i]) - t.eager[i]);
    const double off = std::min(gap, std::abs(t.value[i] - t.exact[i]));
    const double allowed = 1e-4 + 1e-4 * std::abs(static_cast<double>(t.eager[i]));
    outside += off > allowed ? 1 : 0;
    if (off - allowed > excess) excess = off - allowed, worst = static_cast<int64_t>(i);
    largest = std::max(largest, gap);
    error += (t.value[i] - t.exact[i]) * (t.value[i] - t.exact[i]);
    size += t.exact[i] * t.exact[i];
    sum += t.exact[i];
  }
  const auto n = static_cast<double>(t.value.size());
  const double deviation = std::sqrt(size / n - (sum / n) * (sum / n));
  const auto check = t.compare();
  EXPECT_EQ(check.outside, outside);
  EXPECT_FALSE(check.loose);
  EXPECT_EQ(check.worst_index, worst);
  EXPECT_DOUBLE_EQ(check.max_excess, excess);
  EXPECT_DOUBLE_EQ(check.max_absolute, largest);
  EXPECT_NEAR(check.error, std::sqrt(error / size), 1e-12);
  EXPECT_NEAR(check.signal_error, std::sqrt(error / n) / deviation, 1e-12);
}

// Eager's own error gives gate 2 more room, but not KernelBench's evaluator.
TEST(comparison, counts_what_is_beyond_kernelbenchs_tolerance_of_eager) {
  three t(100);
  t.scale(10);
  for (const std::size_t i : {3, 4})
    t.value[i] = t.eager[i] + 0.01F;
  t.value[5] = t.eager[5] + 1e-5F;
  EXPECT_EQ(t.compare().outside_eager, 2);
  t.exact[3] = t.value[3];
  for (const std::size_t i : {6, 7})
    t.eager[i] = t.value[i] = static_cast<float>(t.exact[i] + 0.05);  // eager is off, and the output like it
  const auto check = t.compare();
  EXPECT_EQ(check.outside, 0) << "the looser tolerance";
  EXPECT_TRUE(check.loose);
  EXPECT_EQ(check.outside_eager, 2);
}

TEST(comparison, the_worst_element_is_the_one_with_the_largest_excess) {
  three t(100);
  t.exact[7] = t.eager[7] = 1e6F;
  t.value[7] = 1e6F + 50;  // 100 is allowed there
  t.exact[9] = t.eager[9] = 0;
  t.value[9] = 0.01F;
  const auto check = t.compare();
  EXPECT_EQ(check.worst_index, 9);
  EXPECT_NEAR(check.max_excess, 0.0099, 1e-8);
  EXPECT_EQ(check.max_absolute, 50) << "the largest difference is another element's";
  EXPECT_EQ(check.outside, 1);
}

TEST(comparison, outside_the_declared_draw_the_absolute_term_grows_with_the_size_of_the_output) {
  three t(5000);
  t.scale(1000);
  t.exact[9] = t.eager[9] = 0;  // as a product with large terms that cancel
  t.value[9] = 0.05F;
  const auto wide = t.compare(draw_kind::wide_normal), declared = t.compare();
  EXPECT_EQ(declared.outside, 1) << "KernelBench's own rule";
  EXPECT_DOUBLE_EQ(declared.within.absolute, 1e-4);
  EXPECT_EQ(wide.outside, 0);
  EXPECT_NEAR(wide.within.absolute, 0.1, 0.005);
  EXPECT_EQ(wide.within.relative, 1e-4);
  t.value[9] = 0.11F;
  EXPECT_EQ(t.compare(draw_kind::wide_normal).outside, 1);
  t.scale(1e-6);
  EXPECT_DOUBLE_EQ(t.compare(draw_kind::wide_normal).within.absolute, 1e-4) << "not below that of an output of size 1";
}

TEST(comparison, small_integers_must_be_met_where_eager_meets_them) {
  three t(100);
  for (std::size_t i = 0; i < 100; ++i)
    t.value[i] = t.eager[i] = static_cast<float>(t.exact[i] = static_cast<double>(i));
  EXPECT_EQ(t.compare(draw_kind::small_integers).outside, 0);
  t.value[50] = std::nextafter(50.F, 100.F);
  EXPECT_EQ(t.compare(draw_kind::small_integers).outside, 1);
  EXPECT_EQ(t.compare(draw_kind::impulses).outside, 0);
  t.eager[3] = std::nextafter(3.F, 100.F);  // eager does not meet them itself
  EXPECT_TRUE(t.compare(draw_kind::small_integers).loose);
  EXPECT_EQ(t.compare(draw_kind::small_integers).outside, 0);
}

TEST(comparison, where_eager_itself_is_outside_the_looser_tolerance_holds) {
  three t(100);
  t.eager[3] = static_cast<float>(t.exact[3] + 3e-4 * (1 + std::abs(t.exact[3])));
  const auto check = t.compare();
  EXPECT_TRUE(check.loose);
  EXPECT_EQ(check.within.absolute, 1e-2);
  EXPECT_EQ(check.outside, 0);
  EXPECT_EQ(check.reference_outside, 1);
  EXPECT_EQ(check.reference_outside_loose, 0);
  EXPECT_GT(check.max_absolute, 2e-4);
  t.value[3] = static_cast<float>(t.exact[3] - 3e-2 * (1 + std::abs(t.exact[3])));
  EXPECT_EQ(t.compare().outside, 1);
}

TEST(comparison, an_answer_closer_to_the_exact_one_than_eager_is_not_outside) {
  three t(100);
  t.exact[3] = 1000;
  t.eager[3] = 1000.09F;
  t.value[3] = 999.95F;  // 0.1 is allowed: 0.14 from eager, 0.05 from the exact one
  EXPECT_FALSE(t.compare().loose);
  EXPECT_EQ(t.compare().outside, 0);
  t.value[3] = 999.85F;
  EXPECT_EQ(t.compare().outside, 1);
}

TEST(comparison, not_a_number_is_never_a_wildcard) {
  three t(3000);
  t.value[2500] = std::numeric_limits<float>::quiet_NaN();
  t.eager[10] = t.value[10] = std::numeric_limits<float>::infinity();
  t.exact[10] = std::numeric_limits<double>::infinity();
  t.eager[11] = std::numeric_limits<float>::infinity();
  t.value[11] = -t.eager[11];
  const auto check = t.compare();
  EXPECT_EQ(check.mask_mismatches, 2);
  EXPECT_EQ(check.worst_index, 11);
  EXPECT_TRUE(std::isfinite(check.error));
}

TEST(comparison, integers_must_be_equal_also_beyond_what_a_double_holds) {
  std::vector<int64_t> eager(2000, (int64_t{1} << 60)), value = eager;
  value[1999] += 1;
  const compared_output all{.type = dtype::int64,
                            .exact_type = dtype::int64,
                            .elements = 2000,
                            .value = reinterpret_cast<const std::byte*>(value.data()),
                            .eager = reinterpret_cast<const std::byte*>(eager.data()),
                            .exact = reinterpret_cast<const std::byte*>(eager.data())};
  EXPECT_EQ(compare_output(all, expected_statistics_of(all, draw_kind::declared, {{1, 1}, {1, 1}})).outside, 1);
}

TEST(comparison, an_answer_of_zero_has_no_relative_error_unless_it_is_met) {
  three t(100);
  std::ranges::fill(t.exact, 0);
  std::ranges::fill(t.eager, 0.F);
  std::ranges::fill(t.value, 0.F);
  EXPECT_EQ(t.compare().error, 0);
  t.value[3] = 1e-9F;
  EXPECT_TRUE(std::isinf(t.compare().error));
}

}  // namespace
}  // namespace cudal1
