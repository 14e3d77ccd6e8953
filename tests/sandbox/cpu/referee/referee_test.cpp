// The referee's arithmetic: elements, draws, comparison.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "sandbox/referee/draws.hpp"
#include "sandbox/referee/elements.hpp"

namespace cudal1 {
namespace {

constexpr dtype all_types[] = {dtype::bool_, dtype::uint8,   dtype::int8,     dtype::int16,   dtype::int32,
                               dtype::int64, dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64};

TEST(elements, small_integers_survive_every_dtype) {
  for (const dtype t : all_types) {
    std::vector<double> values{0, 1, 1, 0, 1}, back(5);
    std::vector<std::byte> bytes(static_cast<std::size_t>(5 * size_of(t)));
    store_elements(t, bytes.data(), 0, 5, values.data());
    load_elements(t, bytes.data(), 0, 5, back.data());
    EXPECT_EQ(values, back) << name_of(t);
  }
}

TEST(elements, rounds_to_nearest_and_stays_in_range) {
  const std::vector<double> values{1.00390625, 1e9, -1e9};
  std::vector<double> back(3);
  std::byte bytes[12];
  store_elements(dtype::bfloat16, bytes, 0, 3, values.data());
  load_elements(dtype::bfloat16, bytes, 0, 3, back.data());
  EXPECT_EQ(back[0], 1.0) << "a tie goes to even";
  store_elements(dtype::float16, bytes, 0, 3, values.data());
  load_elements(dtype::float16, bytes, 0, 3, back.data());
  EXPECT_EQ(back[1], 65504);
  store_elements(dtype::int16, bytes, 0, 3, values.data());
  load_elements(dtype::int16, bytes, 0, 3, back.data());
  EXPECT_EQ(back[1], 32767);
  EXPECT_EQ(back[2], -32768);
}

TEST(elements, a_transposed_tensor_is_gathered_in_row_major_order) {
  const tensor_type transposed{dtype::float32, {2, 3}, {1, 2}};
  const std::vector<float> memory{0, 1, 2, 3, 4, 5};
  std::vector<float> flat(6), back(6);
  gather(transposed, reinterpret_cast<const std::byte*>(memory.data()), reinterpret_cast<std::byte*>(flat.data()));
  EXPECT_EQ(flat, (std::vector<float>{0, 2, 4, 1, 3, 5}));
  scatter(transposed, reinterpret_cast<const std::byte*>(flat.data()), reinterpret_cast<std::byte*>(back.data()));
  EXPECT_EQ(back, memory);
}

struct moments {
  double mean = 0, deviation = 0, low = INFINITY, high = -INFINITY;
};
moments moments_of(const std::vector<double>& values) {
  moments m;
  double squares = 0;
  for (const double v : values) {
    m.mean += v;
    squares += v * v;
    m.low = std::min(m.low, v);
    m.high = std::max(m.high, v);
  }
  const auto n = static_cast<double>(values.size());
  m.mean /= n;
  m.deviation = std::sqrt(squares / n - m.mean * m.mean);
  return m;
}

std::vector<double> draw(const input_spec& spec, draw_kind kind, tensor_role role = tensor_role::input,
                         std::vector<int64_t> shape = {256, 256}, uint64_t seed = 7) {
  return draw_values({contiguous(dtype::float32, std::move(shape)), spec, role, kind, seed});
}

TEST(draws, keep_to_the_declared_distribution) {
  input_spec uniform;
  uniform.draw.kind = distribution::uniform;
  uniform.draw.low = 2;
  uniform.draw.high = 4;
  const auto m = moments_of(draw(uniform, draw_kind::declared));
  EXPECT_NEAR(m.mean, 3, 0.01);
  EXPECT_GE(m.low, 2);
  EXPECT_LT(m.high, 4);
  input_spec normal;
  normal.draw.mean = 1;
  normal.draw.std = 3;
  EXPECT_NEAR(moments_of(draw(normal, draw_kind::declared)).deviation, 3, 0.05);
}

TEST(draws, are_distributed_as_it_was_recorded_and_in_other_kinds_as_ever) {
  input_spec recorded;
  recorded.quantiles = {0, 0, 0, 1, 3};  // half of all are 0
  const auto values = draw(recorded, draw_kind::declared);
  const auto m = moments_of(values);
  EXPECT_EQ(m.low, 0);
  EXPECT_LE(m.high, 3);
  EXPECT_GT(m.high, 2.9);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(values, 0.0)) / static_cast<double>(values.size()), 0.5, 0.01);
  EXPECT_NEAR(moments_of(draw(recorded, draw_kind::standard_normal)).deviation, 1, 0.02);
  recorded.quantiles = {99, 100, 101};
  const auto far = moments_of(draw(recorded, draw_kind::outlier_above));
  EXPECT_NEAR(far.mean, 100, 0.1);
  EXPECT_EQ(far.high, 200) << "100 times as far from the middle as the largest recorded one";
}

TEST(draws, repeat_for_a_seed_and_differ_for_another) {
  const input_spec spec;
  EXPECT_EQ(draw(spec, draw_kind::wide_normal), draw(spec, draw_kind::wide_normal));
  EXPECT_NE(draw(spec, draw_kind::wide_normal), draw(spec, draw_kind::wide_normal, tensor_role::input, {256, 256}, 8));
}

TEST(draws, of_each_kind_have_its_properties) {
  const input_spec spec;
  EXPECT_NEAR(moments_of(draw(spec, draw_kind::wide_normal)).deviation, 10, 0.2);
  EXPECT_NEAR(moments_of(draw(spec, draw_kind::around_one)).mean, 1, 0.001);
  EXPECT_GT(moments_of(draw(spec, draw_kind::heavy_tails)).high, 20);
  EXPECT_GT(moments_of(draw(spec, draw_kind::peaked)).high, 17);
  EXPECT_GT(moments_of(draw(spec, draw_kind::offset_rows)).deviation, 3);
  const auto products = draw(spec, draw_kind::products);
  for (const double v : products)
    EXPECT_NEAR(std::abs(v), 1, 0.4);
}

TEST(draws, stay_in_the_domain) {
  input_spec spec;
  spec.draw.min = 0.5;
  spec.draw.max = 2;
  for (const draw_kind kind : {draw_kind::wide_normal, draw_kind::heavy_tails, draw_kind::products}) {
    const auto m = moments_of(draw(spec, kind));
    EXPECT_GE(m.low, 0.5);
    EXPECT_LE(m.high, 2);
  }
}

TEST(draws, keep_every_fact) {
  const int64_t n = 16;
  const auto with = [&](fact f, draw_kind kind) {
    input_spec spec;
    spec.facts = {f};
    return draw(spec, kind, tensor_role::input, {n, n});
  };
  for (const draw_kind kind : {draw_kind::declared, draw_kind::heavy_tails, draw_kind::peaked}) {
    const auto upper = with(fact::upper_triangular, kind), lower = with(fact::lower_triangular, kind),
               diagonal = with(fact::diagonal, kind), symmetric = with(fact::symmetric, kind),
               hot = with(fact::one_hot, kind);
    for (std::size_t r = 0; r < 16; ++r) {
      double ones = 0;
      for (std::size_t c = 0; c < 16; ++c) {
        const std::size_t i = r * 16 + c;
        EXPECT_TRUE(r <= c || upper[i] == 0);
        EXPECT_TRUE(r >= c || lower[i] == 0);
        EXPECT_TRUE(r == c || diagonal[i] == 0);
        EXPECT_EQ(symmetric[i], symmetric[c * 16 + r]);
        ones += hot[i];
      }
      EXPECT_EQ(ones, 1);
    }
    EXPECT_GE(moments_of(with(fact::non_negative, kind)).low, 0);
  }
}

input_spec of_kind(distribution kind) {
  input_spec spec;
  spec.draw.kind = kind;
  return spec;
}

TEST(draws, of_signs_and_constants_are_declared_in_every_kind) {
  input_spec three = of_kind(distribution::constant);
  three.draw.value = 3;
  for (const draw_kind kind : {draw_kind::declared, draw_kind::wide_normal, draw_kind::peaked, draw_kind::outliers})
    for (const tensor_role role : {tensor_role::input, tensor_role::weight}) {
      const auto signs = draw(of_kind(distribution::signs), kind, role);
      for (const double v : signs)
        ASSERT_EQ(std::abs(v), 1);
      EXPECT_NEAR(moments_of(signs).mean, 0, 0.02);
      EXPECT_THAT(draw(three, kind, role, {2, 3}), testing::Each(3.0));
    }
}

TEST(draws, of_a_simplex_stay_on_it_in_every_kind) {
  const input_spec spec = of_kind(distribution::simplex);
  constexpr int64_t rows = 8, width = 1500;  // a row does not end with a block of numbers
  for (const draw_kind kind :
       {draw_kind::declared, draw_kind::wide_normal, draw_kind::around_one, draw_kind::heavy_tails, draw_kind::peaked,
        draw_kind::offset_rows, draw_kind::products, draw_kind::outliers})
    for (const dtype type : {dtype::float32, dtype::float16}) {
      const tensor_type of = contiguous(type, {rows, width});
      std::vector<std::byte> flat(static_cast<std::size_t>(of.bytes()));
      draw_tensor({of, spec, tensor_role::input, kind, 7}, flat.data());
      std::vector<double> values(static_cast<std::size_t>(of.numel()));
      load_elements(type, flat.data(), 0, of.numel(), values.data());
      for (std::size_t row = 0; row < rows; ++row) {
        const std::span part = std::span(values).subspan(row * width, width);
        EXPECT_NEAR(std::accumulate(part.begin(), part.end(), 0.0), 1, type == dtype::float16 ? 0.1 : 1e-4);
        EXPECT_GE(*std::ranges::min_element(part), least_of_simplex(type)) << enum_name(kind);
      }
    }
  EXPECT_GT(moments_of(draw(spec, draw_kind::peaked)).high, 0.9);
  EXPECT_LT(moments_of(draw(spec, draw_kind::around_one)).deviation, 1e-3 / 16);
}

TEST(draws, randomise_weights_that_are_declared_constant) {
  input_spec ones;
  ones.draw.mean = 1;
  ones.draw.std = 0;
  EXPECT_EQ(moments_of(draw(ones, draw_kind::declared, tensor_role::weight)).deviation, 0);
  const auto m = moments_of(draw(ones, draw_kind::standard_normal, tensor_role::weight));
  EXPECT_NEAR(m.mean, 1, 0.01);
  EXPECT_NEAR(m.deviation, 0.5, 0.01);
}

// Elements that are not as declared, by index.
std::map<std::size_t, double> outliers_in(const input_spec& spec, const std::vector<int64_t>& shape, tensor_role role,
                                          uint64_t seed = 7) {
  const auto declared = draw(spec, draw_kind::declared, role, shape, seed);
  const auto drawn = draw(spec, draw_kind::outliers, role, shape, seed);
  std::map<std::size_t, double> differing;
  for (std::size_t i = 0; i < drawn.size(); ++i)
    if (drawn[i] != declared[i]) differing[i] = drawn[i];
  return differing;
}

TEST(outliers, are_a_few_elements_far_out_and_just_outside_on_both_sides) {
  input_spec spec;
  spec.draw.kind = distribution::uniform;
  for (const tensor_role role : {tensor_role::input, tensor_role::weight}) {
    const auto found = outliers_in(spec, {1024, 1024}, role);
    EXPECT_GE(found.size(), 30u);
    EXPECT_LE(found.size(), 32u);
    int above = 0, far_above = 0, far_below = 0, near = 0;
    for (const auto& [at, v] : found) {
      EXPECT_TRUE(v < 0 || v >= 1) << v;
      above += v > 0 ? 1 : 0;
      far_above += v > 40 ? 1 : 0;
      far_below += v < -40 ? 1 : 0;
      near += v > -1 && v < 2 ? 1 : 0;
    }
    EXPECT_NEAR(above, 16, 2);
    EXPECT_GE(far_above, 1);
    EXPECT_GE(far_below, 1);
    EXPECT_GE(near, 2);
  }
  EXPECT_EQ(outliers_in(spec, {64, 64}, tensor_role::input).size(), 6u);
  EXPECT_EQ(outliers_in(spec, {1}, tensor_role::input).size(), 1u);
}

TEST(outliers, lie_elsewhere_for_another_seed) {
  const input_spec spec;
  const auto one = outliers_in(spec, {256, 256}, tensor_role::input, 1),
             other = outliers_in(spec, {256, 256}, tensor_role::input, 2);
  for (const auto& [at, v] : one)
    EXPECT_FALSE(other.contains(at));
}

TEST(outliers, above_and_below_are_a_single_one_each_at_a_place_of_the_seed) {
  input_spec spec;
  spec.draw.kind = distribution::uniform;
  const auto found = [&](draw_kind kind, uint64_t seed) {
    const auto declared = draw(spec, draw_kind::declared, tensor_role::input, {512, 512}, seed);
    const auto drawn = draw(spec, kind, tensor_role::input, {512, 512}, seed);
    std::map<std::size_t, double> differing;
    for (std::size_t i = 0; i < drawn.size(); ++i)
      if (drawn[i] != declared[i]) differing[i] = drawn[i];
    return differing;
  };
  std::set<std::size_t> places;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto above = found(draw_kind::outlier_above, seed), below = found(draw_kind::outlier_below, seed);
    ASSERT_EQ(above.size(), 1u);
    ASSERT_EQ(below.size(), 1u);
    EXPECT_EQ(above.begin()->second, 50.5);
    EXPECT_EQ(below.begin()->second, -49.5);
    places.insert(above.begin()->first);
  }
  EXPECT_GE(places.size(), 39u);
  // A look at every 64th element finds it in one of 64 draws: never in all 40.
  EXPECT_GT(std::ranges::count_if(places, [](std::size_t at) { return at % 64 != 0; }), 30);
}

TEST(draws, of_small_integers_hold_nothing_else) {
  input_spec spec;
  const auto values = draw(spec, draw_kind::small_integers);
  const std::set<double> seen(values.begin(), values.end());
  EXPECT_EQ(seen, (std::set<double>{-2, -1, 0, 1, 2}));
  spec.facts = {fact::lower_triangular};
  const auto triangle = draw(spec, draw_kind::small_integers, tensor_role::weight, {64, 64});
  EXPECT_EQ(triangle[1], 0) << "facts hold";
}

TEST(impulses, stand_at_both_ends_and_at_edges_and_tile_borders) {
  const tensor_type type = contiguous(dtype::float32, {200, 300});
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<double> values(200 * 300);
    std::vector<std::byte> flat(values.size() * 4);
    draw_tensor({.type = type, .spec = {}, .kind = draw_kind::impulses, .seed = seed, .has_impulses = true},
                flat.data());
    load_elements(type.type, flat.data(), 0, type.numel(), values.data());
    EXPECT_NE(values.front(), 0);
    EXPECT_NE(values.back(), 0);
    int count = 0;
    for (int64_t i = 0; i < type.numel(); ++i) {
      const double v = values[static_cast<std::size_t>(i)];
      if (v == 0) continue;
      ++count;
      EXPECT_TRUE(v == std::round(v) && std::abs(v) <= 3);
      const auto is_border = [](int64_t at, int64_t size) {
        return at == 0 || at == size - 1 || at % 16 == 0 || at % 16 == 15;
      };
      EXPECT_TRUE(is_border(i / 300, 200) && is_border(i % 300, 300)) << i / 300 << ", " << i % 300;
    }
    EXPECT_GE(count, 12);
    EXPECT_LE(count, 32);
  }
}

TEST(outliers, leave_a_constant_weight_constant_elsewhere) {
  input_spec ones;
  ones.draw.mean = 1;
  ones.draw.std = 0;
  const auto values = draw(ones, draw_kind::outliers, tensor_role::weight, {64, 64});
  EXPECT_EQ(std::ranges::count(values, 1.0), 64 * 64 - 6);
}

TEST(outliers, keep_domains_facts_and_integers) {
  input_spec positive;
  positive.draw.min = 0.5;
  EXPECT_GE(moments_of(draw(positive, draw_kind::outliers)).low, 0.5);
  EXPECT_GT(moments_of(draw(positive, draw_kind::outliers)).high, 300);
  for (const fact f : {fact::diagonal, fact::upper_triangular, fact::lower_triangular, fact::symmetric}) {
    input_spec spec;
    spec.facts = {f};
    const auto found = outliers_in(spec, {256, 256}, tensor_role::input);
    EXPECT_GE(found.size(), 5u) << "an outlier is not wasted on a zero: " << static_cast<int>(f);
    for (const auto& [at, v] : found) {
      const std::size_t r = at / 256, c = at % 256;
      EXPECT_TRUE(f == fact::symmetric || (f == fact::diagonal && r == c) || (f == fact::upper_triangular && r <= c) ||
                  (f == fact::lower_triangular && r >= c));
      EXPECT_TRUE(f != fact::symmetric || found.contains(c * 256 + r));
    }
  }
  input_spec none;
  none.facts = {fact::one_hot};
  EXPECT_TRUE(outliers_in(none, {64, 64}, tensor_role::input).empty());
  input_spec integers;
  integers.draw.kind = distribution::integer;
  integers.draw.high = 9;
  EXPECT_TRUE(outliers_in(integers, {64, 64}, tensor_role::input).empty());
  input_spec sizes;
  sizes.facts = {fact::non_negative};
  EXPECT_GE(moments_of(draw(sizes, draw_kind::outliers)).low, 0);
}

}  // namespace
}  // namespace cudal1
