// The comparison on the device against compare_output() of the CPU's referee, field by field, and the fingerprints.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sandbox/cuda/referee/compare_on_device.hpp"
#include "sandbox/referee/compare_on_host.hpp"
#include "sandbox/referee/elements.hpp"
#include "tests/sandbox/cuda/referee/cpu_device.hpp"
#include "tests/sandbox/cuda/referee/cpu_runner.hpp"

namespace cudal1::test {
namespace {

struct operands {
  dtype type, exact_type;
  int64_t elements;
  std::vector<std::byte> value, eager, exact;
};

std::vector<std::byte> stored(dtype type, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_of(type)));
  store_elements(type, bytes.data(), 0, static_cast<int64_t>(values.size()), values.data());
  return bytes;
}

// One number, which may be infinite: store_elements clamps to what is finite in float16.
std::vector<std::byte> number(dtype type, double v) {
  auto bytes = stored(type, {v});
  const uint16_t bits = v > 0 ? 0x7c00 : 0xfc00;
  if (type == dtype::float16 && std::isinf(v)) std::memcpy(bytes.data(), &bits, sizeof bits);
  return bytes;
}

// Noisy values, and, for floating types, a few that are not finite in some of the three.
operands random_operands(dtype type, int64_t elements, std::mt19937_64& random, double noise, bool specials) {
  std::normal_distribution<double> normal;
  const bool floating = is_floating(type);
  const auto n = static_cast<std::size_t>(elements);
  std::vector<double> value(n), eager(n), exact(n);
  for (std::size_t i = 0; i < n; ++i) {
    exact[i] = floating ? normal(random) : static_cast<double>(random() % 5);
    eager[i] = floating ? exact[i] + noise * normal(random) : exact[i];
    value[i] = floating ? exact[i] + noise * normal(random) : random() % 50 == 0 ? 1 : exact[i];
    if (!specials || !floating || random() % 40 != 0) continue;
    constexpr double odd[] = {NAN, INFINITY, -INFINITY, 1};
    value[i] = odd[random() % 4];
    eager[i] = odd[random() % 4];
    if (random() % 2 == 0) exact[i] = odd[random() % 4];
  }
  const dtype exact_type = floating ? dtype::float64 : type;
  return {type, exact_type, elements, stored(type, value), stored(type, eager), stored(exact_type, exact)};
}

struct comparing : testing::Test {
  std::unique_ptr<referee_device> device = make_cpu_device();
  output_comparer comparer{*device};
  tolerances allowed{{1e-3, 1e-3}, {1e-2, 1e-2}};

  output_check on_device(const operands& o, draw_kind kind = draw_kind::declared) {
    const compared_tensors operands{o.type, o.elements, o.value.data(), o.eager.data(), o.exact.data()};
    const auto statistics = comparer.statistics_of(operands, o.eager.data(), kind, allowed);
    EXPECT_TRUE(statistics) << statistics.error().message;
    const auto started = comparer.start_compare(operands, *statistics);
    EXPECT_TRUE(started) << started.error().message;
    EXPECT_TRUE(comparer.collect());
    return comparer.compared(*started, operands, *statistics);
  }
  output_check on_host(const operands& o, draw_kind kind = draw_kind::declared) {
    const compared_output all{o.type, o.exact_type, o.elements, o.value.data(), o.eager.data(), o.exact.data()};
    return compare_output(all, expected_statistics_of(all, kind, allowed));
  }
  expected_statistics statistics(const std::vector<double>& eager, const std::vector<double>& strict,
                                 const std::vector<double>& exact) {
    const auto e = stored(dtype::float32, eager), s = stored(dtype::float32, strict), d = stored(dtype::float64, exact);
    const auto found =
        comparer.statistics_of({.elements = static_cast<int64_t>(eager.size()), .eager = e.data(), .exact = d.data()},
                               s.data(), draw_kind::declared, allowed);
    EXPECT_TRUE(found) << found.error().message;
    return *found;
  }
};

void expect_close(double a, double b, const char* what) {
  if (std::isinf(a) || std::isinf(b))
    EXPECT_EQ(a, b) << what;
  else
    EXPECT_NEAR(a, b, 1e-9 * std::max(std::abs(a), 1e-30) + 1e-300) << what;
}

void expect_same(const output_check& a, const output_check& b) {
  EXPECT_EQ(a.elements, b.elements);
  EXPECT_EQ(a.mask_mismatches, b.mask_mismatches);
  EXPECT_EQ(a.outside, b.outside);
  EXPECT_EQ(a.outside_eager, b.outside_eager);
  EXPECT_EQ(a.loose, b.loose);
  EXPECT_EQ(a.within.absolute, b.within.absolute);
  EXPECT_EQ(a.within.relative, b.within.relative);
  expect_close(a.max_excess, b.max_excess, "excess");
  expect_close(a.expected_mean, b.expected_mean, "mean");
  EXPECT_EQ(a.reference_outside, b.reference_outside);
  EXPECT_EQ(a.reference_outside_loose, b.reference_outside_loose);
  EXPECT_EQ(a.max_absolute, b.max_absolute);
  EXPECT_EQ(a.worst_index, b.worst_index);
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  EXPECT_TRUE(same(a.worst_value, b.worst_value)) << a.worst_value << " " << b.worst_value;
  EXPECT_TRUE(same(a.worst_expected, b.worst_expected)) << a.worst_expected << " " << b.worst_expected;
}

constexpr dtype all_types[] = {dtype::bool_, dtype::uint8,   dtype::int8,     dtype::int16,   dtype::int32,
                               dtype::int64, dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64};

TEST_F(comparing, gives_the_numbers_of_the_cpu_where_eager_alone_counts) {
  std::mt19937_64 random(12);
  allowed.eager_alone = true;
  for (const dtype type : all_types)
    for (const bool specials : {false, true}) {
      SCOPED_TRACE(name_of(type));
      const operands o = random_operands(type, 5000, random, 3e-3, specials);
      expect_same(on_device(o), on_host(o));
    }
}

TEST_F(comparing, gives_the_numbers_of_the_cpu_for_every_dtype_and_size) {
  std::mt19937_64 random(11);
  for (const dtype type : all_types)
    for (const int64_t elements : {1, 255, 2049, 20'000}) {
      SCOPED_TRACE(name_of(type) + " " + std::to_string(elements));
      const operands o = random_operands(type, elements, random, 3e-3, false);
      const output_check device_says = on_device(o), host_says = on_host(o);
      expect_same(device_says, host_says);
      expect_close(device_says.error, host_says.error, "error");
      expect_close(device_says.signal_error, host_says.signal_error, "signal error");
      expect_close(device_says.reference_error, host_says.reference_error, "reference error");
      expect_close(device_says.reference_signal_error, host_says.reference_signal_error, "reference signal error");
      expect_close(device_says.strict_error, host_says.strict_error, "strict error");
    }
}

TEST_F(comparing, counts_what_is_not_finite_as_the_cpu_does) {
  std::mt19937_64 random(12);
  for (const dtype type : {dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64}) {
    SCOPED_TRACE(name_of(type));
    const operands o = random_operands(type, 20'000, random, 1e-4, true);
    const output_check device_says = on_device(o);
    expect_same(device_says, on_host(o));
    EXPECT_GT(device_says.mask_mismatches, 0);
  }
}

// Every output, eager's output and exact one at the edge of each type's range.
TEST_F(comparing, takes_infinity_at_the_edge_of_a_type_as_the_cpu_does) {
  const double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const dtype type : {dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64}) {
    SCOPED_TRACE(name_of(type));
    const double edge = std::min(least_infinite(type), std::numeric_limits<double>::max());
    for (const double v : {1.0, infinite, -infinite, nan})
      for (const double e : {1.0, infinite, -infinite, nan})
        for (const double d :
             {1.0, edge, std::nextafter(edge, 0.0), -edge, -std::nextafter(edge, 0.0), infinite, nan}) {
          const operands one{type, dtype::float64, 1, number(type, v), number(type, e), stored(dtype::float64, {d})};
          SCOPED_TRACE(fmt::format("{} {} {}", v, e, d));
          EXPECT_EQ(on_device(one).mask_mismatches, on_host(one).mask_mismatches);
        }
  }
}

TEST_F(comparing, an_equal_output_has_no_worst_element_and_no_error) {
  const auto ones = stored(dtype::float32, std::vector<double>(3000, 1.0));
  const auto exact = stored(dtype::float64, std::vector<double>(3000, 1.0));
  const output_check check = on_device({dtype::float32, dtype::float64, 3000, ones, ones, exact});
  EXPECT_EQ(check.worst_index, -1);
  EXPECT_EQ(check.max_absolute, 0);
  EXPECT_EQ(check.error, 0);
}

TEST_F(comparing, the_lowest_of_equal_deviations_is_the_worst) {
  std::vector<double> wrong(40'000, 0.0);
  wrong[777] = wrong[30'001] = -2;
  const std::vector<double> zeros(40'000, 0.0);
  const operands o{dtype::float32,
                   dtype::float64,
                   40'000,
                   stored(dtype::float32, wrong),
                   stored(dtype::float32, zeros),
                   stored(dtype::float64, zeros)};
  const output_check check = on_device(o);
  EXPECT_EQ(check.worst_index, 777);
  EXPECT_EQ(check.worst_value, -2);
  EXPECT_TRUE(std::isinf(check.error)) << "the exact output is zero everywhere";
}

TEST_F(comparing, distinguishes_large_integers_that_are_one_double) {
  const std::vector<int64_t> eager{(int64_t{1} << 60) + 1, 5}, value{int64_t{1} << 60, 5};
  operands o{dtype::int64, dtype::int64, 2, {}, {}, {}};
  for (auto* const bytes : {&o.value, &o.eager, &o.exact})
    bytes->resize(16);
  std::memcpy(o.value.data(), value.data(), 16);
  std::memcpy(o.eager.data(), eager.data(), 16);
  std::memcpy(o.exact.data(), eager.data(), 16);
  EXPECT_EQ(on_device(o).outside, 1);
  expect_same(on_device(o), on_host(o));
}

TEST_F(comparing, allows_on_every_kind_of_draw_what_the_cpu_does) {
  std::mt19937_64 random(14);
  for (const draw_kind kind : {draw_kind::declared, draw_kind::wide_normal, draw_kind::small_integers})
    for (const dtype type : {dtype::float16, dtype::float32, dtype::int32})
      for (const double size : {1e-3, 1.0, 64.0}) {
        SCOPED_TRACE(name_of(type) + " " + std::to_string(size));
        operands o = random_operands(type, 5000, random, 2e-4, false);
        if (is_floating(type)) {
          for (auto* const bytes : {&o.value, &o.eager, &o.exact}) {
            const dtype of = bytes == &o.exact ? dtype::float64 : type;
            std::vector<double> values(5000);
            load_elements(of, bytes->data(), 0, 5000, values.data());
            for (double& v : values)
              v *= size;
            store_elements(of, bytes->data(), 0, 5000, values.data());
          }
        }
        const output_check device_says = on_device(o, kind);
        expect_same(device_says, on_host(o, kind));
        if (type == dtype::float32 && kind == draw_kind::wide_normal) {
          EXPECT_NEAR(device_says.within.absolute, 1e-3 * std::max(size, 1.0), 1e-4 * std::max(size, 1.0));
        }
      }
}

TEST_F(comparing, the_worst_element_is_the_one_with_the_largest_excess) {
  std::vector<double> expected(3000, 1.0), value(3000, 1.0);
  expected[7] = 1e6;
  value[7] = 1e6 + 500;  // 1000 is allowed there
  value[2900] = 1.05;
  const auto e = stored(dtype::float32, expected);
  const operands o{
      dtype::float32, dtype::float64, 3000, stored(dtype::float32, value), e, stored(dtype::float64, expected)};
  const output_check check = on_device(o);
  EXPECT_EQ(check.worst_index, 2900);
  EXPECT_EQ(check.max_absolute, 500);
  EXPECT_NEAR(check.max_excess, 0.048, 1e-6);
  expect_same(check, on_host(o));
}

TEST_F(comparing, compares_strict_float32_with_the_exact_output_and_eager) {
  const std::vector<double> exact(1000, 1.0), eager(1000, 1.01), strict(1000, 1.00001), far(1000, 0.99);
  const expected_statistics near = statistics(eager, strict, exact);
  EXPECT_NEAR(near.error, 1e-2, 1e-6);
  EXPECT_NEAR(near.strict_error, 1e-5, 1e-7);
  EXPECT_EQ(near.strict_outside, 0) << "close to the exact output";
  EXPECT_EQ(near.outside, 1000);
  EXPECT_EQ(statistics(eager, far, exact).strict_outside, 1000);
}

TEST_F(comparing, strict_eager_has_the_same_statistics_without_a_second_run) {
  const auto o = [] {
    std::mt19937_64 random(5);
    return random_operands(dtype::float32, 3000, random, 1e-3, true);
  }();
  const compared_tensors operands{o.type, o.elements, nullptr, o.eager.data(), o.exact.data()};
  const auto of = [&](const void* strict) {
    return *comparer.statistics_of(operands, strict, draw_kind::declared, allowed);
  };
  const expected_statistics both = of(o.eager.data()), one = of(nullptr);
  EXPECT_GT(one.error, 0);
  EXPECT_EQ(one.strict_error, both.strict_error);
  EXPECT_EQ(one.strict_signal_error, both.strict_signal_error);
  EXPECT_EQ(one.strict_outside, both.strict_outside);
}

TEST_F(comparing, an_empty_output_is_right) {
  EXPECT_EQ(on_device({dtype::float32, dtype::float64, 0, {}, {}, {}}).elements, 0);
}

struct hashing : comparing {
  fingerprint hash(const std::vector<unsigned char>& bytes, std::size_t from, std::size_t count, uint64_t secret) {
    return hash(contiguous(dtype::uint8, {static_cast<int64_t>(count)}), bytes.data() + from, secret);
  }
  fingerprint hash(const tensor_type& type, const void* data, uint64_t key) {
    const auto started = comparer.start_hash(type, data, key, 0);
    EXPECT_TRUE(started) << started.error().message;
    EXPECT_TRUE(comparer.collect());
    EXPECT_EQ(comparer.hashed(*started), hash_on_host({{type, const_cast<void*>(data)}}, key));
    return comparer.hashed(*started);
  }
};

TEST_F(hashing, depends_on_every_byte_on_its_place_and_on_the_secret) {
  std::mt19937_64 random(13);
  std::vector<unsigned char> bytes(50'003);
  for (auto& b : bytes)
    b = static_cast<unsigned char>(random());
  const fingerprint first = hash(bytes, 0, bytes.size(), 7);
  EXPECT_EQ(hash(bytes, 0, bytes.size(), 7), first);
  EXPECT_FALSE(hash(bytes, 0, bytes.size(), 8) == first);
  EXPECT_FALSE(hash(bytes, 0, bytes.size() - 1, 7) == first);
  for (const std::size_t at : {std::size_t{0}, std::size_t{12'345}, bytes.size() - 1}) {
    auto other = bytes;
    other[at] ^= 1;
    const fingerprint changed = hash(other, 0, other.size(), 7);
    EXPECT_NE(changed.low, first.low);
    EXPECT_NE(changed.high, first.high);
  }
  auto swapped = bytes;
  std::swap_ranges(swapped.begin(), swapped.begin() + 8, swapped.begin() + 8);
  EXPECT_FALSE(hash(swapped, 0, swapped.size(), 7) == first);
}

TEST_F(hashing, does_not_depend_on_the_address) {
  std::vector<unsigned char> bytes(4096 + 8, 3);
  for (std::size_t i = 0; i < 4096; ++i)
    bytes[i] = static_cast<unsigned char>(i * 7);
  const fingerprint aligned = hash(bytes, 0, 4090, 5);
  std::vector<unsigned char> shifted(bytes.size() + 3);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 3);
  EXPECT_EQ(hash(shifted, 3, 4090, 5), aligned);
}

TEST_F(hashing, of_a_strided_tensor_is_that_of_its_elements_in_their_order) {
  std::vector<uint16_t> rows(7 * 30), columns(7 * 30);
  for (std::size_t r = 0; r < 7; ++r)
    for (std::size_t c = 0; c < 30; ++c)
      rows[30 * r + c] = columns[7 * c + r] = static_cast<uint16_t>(100 * r + c);
  const tensor_type in_order = contiguous(dtype::int16, {7, 30});
  const tensor_type transposed{dtype::int16, {7, 30}, {1, 7}};
  EXPECT_EQ(hash(transposed, columns.data(), 9), hash(in_order, rows.data(), 9));
  EXPECT_FALSE(hash(in_order, columns.data(), 9) == hash(in_order, rows.data(), 9));
}

TEST_F(hashing, many_are_collected_together) {
  const std::vector<unsigned char> bytes(1000, 1);
  const tensor_type type = contiguous(dtype::uint8, {1000});
  std::vector<std::size_t> started;
  for (std::size_t i = 0; i < 20; ++i)
    started.push_back(comparer.start_hash(type, bytes.data(), i, 0).value());
  ASSERT_TRUE(comparer.collect());
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_EQ(comparer.hashed(started[i]), hash_on_host({{type, const_cast<unsigned char*>(bytes.data())}}, i));
}

}  // namespace
}  // namespace cudal1::test
