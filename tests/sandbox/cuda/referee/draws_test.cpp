// Draws made by ATen, compared with their specification.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "sandbox/cuda/referee/gpu_draws.hpp"
#include "sandbox/interpreter/boxed_values.hpp"
#include "sandbox/program/quantiles.hpp"
#include "sandbox/referee/elements.hpp"

namespace cudal1::test {
namespace {

std::vector<double> drawn(const tensor_type& type, const input_spec& spec, tensor_role role, draw_kind kind,
                          uint64_t seed) {
  std::vector<std::byte> memory(static_cast<std::size_t>(type.storage_bytes())),
      flat(static_cast<std::size_t>(type.bytes()));
  const auto done = fill_draw(wrap({type, memory.data()}, at::kCPU), {type, spec, role, kind, seed});
  EXPECT_TRUE(done) << done.error().message;
  gather(type, memory.data(), flat.data());
  std::vector<double> values(static_cast<std::size_t>(type.numel()));
  load_elements(type.type, flat.data(), 0, type.numel(), values.data());
  return values;
}

std::vector<double> drawn(const input_spec& spec, draw_kind kind, tensor_role role = tensor_role::input,
                          std::vector<int64_t> shape = {256, 256}, dtype type = dtype::float32) {
  return drawn(contiguous(type, std::move(shape)), spec, role, kind, 7);
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

input_spec uniform(double low, double high) {
  input_spec spec;
  spec.draw.kind = distribution::uniform;
  spec.draw.low = low;
  spec.draw.high = high;
  return spec;
}

TEST(gpu_draws, keep_to_the_declared_distribution) {
  const moments flat = moments_of(drawn(uniform(2, 4), draw_kind::declared));
  EXPECT_GE(flat.low, 2);
  EXPECT_LE(flat.high, 4);
  EXPECT_NEAR(flat.mean, 3, 0.02);
  input_spec bell;
  bell.draw.mean = 3;
  bell.draw.std = 0.5;
  const moments normal = moments_of(drawn(bell, draw_kind::declared));
  EXPECT_NEAR(normal.mean, 3, 0.02);
  EXPECT_NEAR(normal.deviation, 0.5, 0.02);
}

TEST(gpu_draws, are_distributed_as_it_was_recorded) {
  input_spec recorded;
  recorded.quantiles = {0, 0, 0, 1, 3};  // half of all are 0
  for (const dtype type : {dtype::float32, dtype::float64, dtype::bfloat16}) {
    const auto values = drawn(recorded, draw_kind::declared, tensor_role::input, {256, 256}, type);
    const moments m = moments_of(values);
    EXPECT_EQ(m.low, 0);
    EXPECT_LE(m.high, 3);
    EXPECT_GT(m.high, 2.9);
    EXPECT_NEAR(static_cast<double>(std::ranges::count(values, 0.0)) / static_cast<double>(values.size()), 0.5, 0.01);
    // As quantile() says of evenly spread shares.
    double mean = 0;
    for (int i = 0; i < 1000; ++i)
      mean += quantile(recorded.quantiles, (i + 0.5) / 1000) / 1000;
    EXPECT_NEAR(m.mean, mean, 0.01);
  }
}

TEST(gpu_draws, a_seed_gives_the_same_values_and_another_seed_others) {
  const auto type = contiguous(dtype::float32, {64, 64});
  const auto once = drawn(type, {}, tensor_role::input, draw_kind::heavy_tails, 5);
  EXPECT_EQ(drawn(type, {}, tensor_role::input, draw_kind::heavy_tails, 5), once);
  EXPECT_NE(drawn(type, {}, tensor_role::input, draw_kind::heavy_tails, 6), once);
}

TEST(gpu_draws, every_kind_has_its_shape) {
  const input_spec spec = uniform(0, 1);
  const moments wide = moments_of(drawn(spec, draw_kind::wide_normal));
  EXPECT_NEAR(wide.deviation, 10, 0.3);
  const moments near = moments_of(drawn(spec, draw_kind::around_one));
  EXPECT_NEAR(near.mean, 1, 1e-3);
  EXPECT_NEAR(near.deviation, 0.01, 1e-3);
  const moments tails = moments_of(drawn(spec, draw_kind::heavy_tails));
  EXPECT_GT(tails.high, 20);
  EXPECT_LT(tails.low, -20);
  const auto products = drawn(spec, draw_kind::products);
  EXPECT_NEAR(moments_of(products).mean, 0, 0.05) << "random signs";
  for (const double v : products)
    ASSERT_NEAR(std::abs(v), 1, 0.35);
  const auto peaked = drawn(spec, draw_kind::peaked);
  for (std::size_t row = 0; row < 256; ++row)
    ASSERT_EQ(std::count_if(peaked.begin() + static_cast<long>(row) * 256,
                            peaked.begin() + static_cast<long>(row + 1) * 256, [](double v) { return v > 12; }),
              1);
  const auto rows = drawn(spec, draw_kind::offset_rows);
  const moments first = moments_of({rows.begin(), rows.begin() + 256});
  const moments second = moments_of({rows.begin() + 256, rows.begin() + 512});
  EXPECT_GT(std::abs(first.mean - second.mean), 0.1);
}

TEST(gpu_draws, outliers_are_few_and_far_and_the_rest_is_declared) {
  for (const tensor_role role : {tensor_role::input, tensor_role::weight}) {
    const auto values = drawn(uniform(0, 1), draw_kind::outliers, role, {1024, 1024});
    const auto out = std::ranges::count_if(values, [](double v) { return v < 0 || v > 1; });
    EXPECT_GE(out, 6);
    EXPECT_LE(out, 128);
    EXPECT_GT(moments_of(values).high, 20);
  }
}

TEST(gpu_draws, stay_in_the_domain) {
  input_spec spec = uniform(0.1, 0.9);
  spec.draw.min = 0.05;
  spec.draw.max = 0.95;
  for (const draw_kind kind :
       {draw_kind::declared, draw_kind::wide_normal, draw_kind::heavy_tails, draw_kind::outliers})
    for (const dtype type : {dtype::float32, dtype::float16}) {
      const moments m = moments_of(drawn(spec, kind, tensor_role::input, {128, 128}, type));
      EXPECT_GE(m.low, 0.0499);
      EXPECT_LE(m.high, 0.9505);
      EXPECT_GT(m.deviation, 0.1) << "nothing piles up at an end";
    }
  spec.draw.max.reset();
  EXPECT_GE(moments_of(drawn(spec, draw_kind::standard_normal)).low, 0.0499);
  spec.draw.min.reset();
  spec.draw.max = 2;
  EXPECT_LE(moments_of(drawn(spec, draw_kind::wide_normal)).high, 2);
}

TEST(gpu_draws, integers_and_flags_are_declared_in_every_kind) {
  input_spec spec;
  spec.draw.kind = distribution::integer;
  spec.draw.low = -2;
  spec.draw.high = 3;
  for (const dtype type : {dtype::int64, dtype::int8, dtype::float32, dtype::float16}) {
    const auto values = drawn(spec, draw_kind::wide_normal, tensor_role::input, {64, 64}, type);
    EXPECT_EQ(moments_of(values).low, -2);
    EXPECT_EQ(moments_of(values).high, 2);
    for (const double v : values)
      ASSERT_EQ(v, std::round(v));
  }
  spec.draw.kind = distribution::bernoulli;
  spec.draw.probability = 0.25;
  EXPECT_NEAR(moments_of(drawn(spec, draw_kind::peaked, tensor_role::input, {64, 64}, dtype::bool_)).mean, 0.25, 0.03);
}

TEST(gpu_draws, signs_and_constants_are_declared_in_every_kind) {
  input_spec signs, three;
  signs.draw.kind = distribution::signs;
  three.draw.kind = distribution::constant;
  three.draw.value = 3;
  for (const draw_kind kind : {draw_kind::declared, draw_kind::peaked, draw_kind::outliers})
    for (const dtype type : {dtype::float32, dtype::bfloat16, dtype::int8, dtype::int64}) {
      const auto values = drawn(signs, kind, tensor_role::input, {64, 64}, type);
      for (const double v : values)
        ASSERT_EQ(std::abs(v), 1);
      EXPECT_NEAR(moments_of(values).mean, 0, 0.1);
      for (const double v : drawn(three, kind, tensor_role::weight, {8, 8}, type))
        ASSERT_EQ(v, 3);
    }
}

TEST(gpu_draws, a_simplex_stays_one_in_every_kind) {
  input_spec spec;
  spec.draw.kind = distribution::simplex;
  for (const draw_kind kind : {draw_kind::declared, draw_kind::wide_normal, draw_kind::heavy_tails, draw_kind::peaked,
                               draw_kind::offset_rows, draw_kind::products, draw_kind::outliers})
    for (const dtype type : {dtype::float32, dtype::float16}) {
      const auto values = drawn(spec, kind, tensor_role::input, {16, 300}, type);
      for (std::size_t row = 0; row < 16; ++row) {
        double sum = 0;
        for (std::size_t i = row * 300; i < (row + 1) * 300; ++i)
          sum += values[i];
        EXPECT_NEAR(sum, 1, type == dtype::float16 ? 0.05 : 1e-4);
      }
      EXPECT_GE(moments_of(values).low, least_of_simplex(type));
    }
  EXPECT_GT(moments_of(drawn(spec, draw_kind::peaked)).high, 0.9);
}

TEST(gpu_draws, weights_of_other_kinds_are_spread_around_their_mean) {
  input_spec gain = uniform(1, 1);
  const moments m = moments_of(drawn(gain, draw_kind::standard_normal, tensor_role::weight));
  EXPECT_NEAR(m.mean, 1, 0.02);
  EXPECT_NEAR(m.deviation, 0.5, 0.02);
  EXPECT_EQ(moments_of(drawn(gain, draw_kind::declared, tensor_role::weight)).deviation, 0);
}

TEST(gpu_draws, facts_hold_in_every_kind) {
  const auto at = [](const std::vector<double>& v, std::size_t r, std::size_t c) { return v[64 + r * 8 + c]; };
  for (const draw_kind kind : {draw_kind::declared, draw_kind::standard_normal, draw_kind::outliers}) {
    const auto with = [&](fact f) {
      input_spec spec;
      spec.facts = {f};
      return drawn(spec, kind, tensor_role::input, {2, 8, 8});
    };
    const auto diagonal = with(fact::diagonal), upper = with(fact::upper_triangular),
               lower = with(fact::lower_triangular), same = with(fact::symmetric), hot = with(fact::one_hot),
               positive = with(fact::non_negative);
    for (std::size_t r = 0; r < 8; ++r)
      for (std::size_t c = 0; c < 8; ++c) {
        EXPECT_EQ(at(diagonal, r, c) != 0, r == c);
        EXPECT_EQ(at(upper, r, c) != 0, r <= c);
        EXPECT_EQ(at(lower, r, c) != 0, r >= c);
        EXPECT_EQ(at(same, r, c), at(same, c, r));
      }
    EXPECT_EQ(std::ranges::count(hot, 1.0), 16);
    EXPECT_EQ(std::ranges::count(hot, 0.0), 112);
    EXPECT_GE(moments_of(positive).low, 0);
  }
}

TEST(gpu_draws, strided_and_broadcast_tensors_are_filled_through_their_strides) {
  input_spec spec;
  spec.facts = {fact::upper_triangular};
  const auto values = drawn({dtype::float32, {8, 8}, {1, 8}}, spec, tensor_role::input, draw_kind::declared, 3);
  for (std::size_t r = 0; r < 8; ++r)
    for (std::size_t c = 0; c < 8; ++c)
      EXPECT_EQ(values[r * 8 + c] != 0, r <= c);
  const auto seen = drawn({dtype::float32, {4, 3}, {0, 1}}, {}, tensor_role::input, draw_kind::declared, 3);
  EXPECT_EQ(seen[0], seen[9]);
  EXPECT_NE(seen[0], seen[1]);
}

TEST(gpu_draws, halves_stay_finite) {
  for (const dtype type : {dtype::float16, dtype::bfloat16}) {
    input_spec spec;
    spec.draw.std = 1e5;
    for (const double v : drawn(spec, draw_kind::declared, tensor_role::input, {64, 64}, type))
      ASSERT_TRUE(std::isfinite(v));
  }
}

struct drawn_content : testing::Test {
  input_spec spec;
  std::vector<float> content;
  void SetUp() override {
    spec.draw.std = 0.5;
    spec.content = tensor_content{"", "w", false};
    for (int i = 0; i < 4000; ++i)
      content.push_back(0.125F + static_cast<float>(i));
  }
  std::vector<float> draw(draw_kind kind, const tensor_type& type = contiguous(dtype::float32, {40, 100})) const {
    std::vector<float> values(static_cast<std::size_t>(type.storage_bytes()) / sizeof(float));
    const auto done =
        fill_draw(wrap({type, values.data()}, at::kCPU),
                  {type, spec, tensor_role::weight, kind, 7, reinterpret_cast<const std::byte*>(content.data())});
    EXPECT_TRUE(done) << done.error().message;
    return values;
  }
  int64_t differing(const std::vector<float>& values) const {
    int64_t count = 0;
    for (std::size_t i = 0; i < content.size(); ++i)
      count += values[i] != content[i] ? 1 : 0;
    return count;
  }
};

TEST_F(drawn_content, is_the_declared_draw_and_has_few_outliers_and_another_kind_is_drawn) {
  EXPECT_EQ(draw(draw_kind::declared), content);
  EXPECT_GE(differing(draw(draw_kind::outliers)), 4);
  EXPECT_LE(differing(draw(draw_kind::outliers)), 6);
  EXPECT_EQ(differing(draw(draw_kind::standard_normal)), 4000);
  spec.facts = {fact::non_negative};
  EXPECT_LE(differing(draw(draw_kind::outliers)), 6);
  spec.content->fixed = true;
  for (const draw_kind kind : {draw_kind::declared, draw_kind::standard_normal, draw_kind::outliers})
    EXPECT_EQ(draw(kind), content);
}

TEST_F(drawn_content, fills_strided_and_broadcast_weights_through_their_strides) {
  const auto transposed = draw(draw_kind::declared, {dtype::float32, {40, 100}, {1, 40}});
  EXPECT_EQ(transposed[40], content[1]);
  EXPECT_EQ(transposed[1], content[100]);
  const auto seen = draw(draw_kind::declared, {dtype::float32, {40, 100}, {0, 1}});
  EXPECT_EQ(seen, std::vector<float>(content.begin(), content.begin() + 100));
}

TEST(gpu_draws, an_empty_tensor_needs_nothing) {
  EXPECT_TRUE(drawn({}, draw_kind::peaked, tensor_role::input, {0, 4}).empty());
}

}  // namespace
}  // namespace cudal1::test
