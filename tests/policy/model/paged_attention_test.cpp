// Attention over pages against the definition, in float64.
#include "policy/model/paged_attention.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

// What a bfloat16 of these bits is.
float value_of(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
float value_of(float v) {
  return v;
}
void set(float& to, float v) {
  to = v;
}
void set(uint16_t& to, float v) {
  to = static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16);
}

// The largest difference to the definition over all heads.
template <class Element>
double error_of(const attention_sizes& s, int64_t length, float size_of_scores) {
  constexpr int32_t pages = 12;
  std::mt19937 random(static_cast<unsigned>(length));
  std::normal_distribution<float> normal;
  const auto of_head = static_cast<std::size_t>(s.head_size);
  const auto count = static_cast<std::size_t>(pages * s.page_tokens * s.kv_heads) * of_head;
  std::vector<Element> keys(count), values(count);
  for (auto* all : {&keys, &values})
    for (auto& each : *all)
      set(each, normal(random));
  std::vector<float> query(static_cast<std::size_t>(s.heads) * of_head), mixed(query.size());
  for (auto& each : query)
    each = normal(random) * size_of_scores;
  std::vector<int32_t> of_text(pages);
  for (int32_t i = 0; i < pages; ++i)
    of_text[static_cast<std::size_t>(i)] = i;
  std::ranges::shuffle(of_text, random);
  attend_pages(s, {of_text, length}, query.data(), keys.data(), values.data(), mixed.data());

  double worst = 0;
  for (int64_t h = 0; h < s.heads; ++h) {
    const auto place = [&](int64_t p) {
      const int64_t page = of_text[static_cast<std::size_t>(p / s.page_tokens)];
      const int64_t row = page * s.page_tokens + p % s.page_tokens;
      return static_cast<std::size_t>((row * s.kv_heads + h / (s.heads / s.kv_heads)) * s.head_size);
    };
    const std::size_t own = static_cast<std::size_t>(h) * of_head;
    std::vector<double> scores(static_cast<std::size_t>(length));
    for (int64_t p = 0; p < length; ++p) {
      for (std::size_t d = 0; d < of_head; ++d)
        scores[static_cast<std::size_t>(p)] += double{query[own + d]} * value_of(keys[place(p) + d]);
      scores[static_cast<std::size_t>(p)] /= std::sqrt(static_cast<double>(s.head_size));
    }
    const double most = *std::ranges::max_element(scores);
    std::vector<double> expected(of_head);
    double sum = 0;
    for (int64_t p = 0; p < length; ++p) {
      const double weight = std::exp(scores[static_cast<std::size_t>(p)] - most);
      sum += weight;
      for (std::size_t d = 0; d < of_head; ++d)
        expected[d] += weight * value_of(values[place(p) + d]);
    }
    for (std::size_t d = 0; d < of_head; ++d) {
      const double error = std::abs(expected[d] / sum - mixed[own + d]);
      worst = error <= worst ? worst : error;  // NaN is the worst
    }
  }
  return worst;
}

TEST(paged_attention, is_the_definition_for_all_lengths_and_shapes) {
  for (const attention_sizes& s : {attention_sizes{9, 3, 64, 64}, {4, 4, 8, 16}, {14, 2, 72, 8}, {6, 1, 128, 5}})
    for (const int64_t length : {1, 2, 5, 8, 9, 16, 17, 40, 60}) {
      SCOPED_TRACE(testing::Message() << s.heads << " heads of " << s.head_size << ", length " << length);
      EXPECT_LT(error_of<float>(s, length, 1), 1e-6);
      EXPECT_LT(error_of<uint16_t>(s, length, 1), 1e-6);
    }
  EXPECT_LT(error_of<float>({9, 3, 64, 64}, 700, 1), 1e-6);
  // Weights that differ by more than float32 can hold.
  EXPECT_LT(error_of<float>({2, 1, 64, 64}, 700, 60), 3e-5);
}

TEST(paged_attention, needs_heads_of_whole_vectors_that_are_shared_evenly) {
  EXPECT_TRUE(can_attend_pages({9, 3, 64, 64}));
  EXPECT_FALSE(can_attend_pages({9, 3, 60, 64}));
  EXPECT_FALSE(can_attend_pages({9, 2, 64, 64}));
}

}  // namespace
}  // namespace cudal1
