#include "policy/model/paged_attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cudal1 {

namespace {

// What is not inlined is compiled for the oldest processors alone.
#define CUDAL1_INLINED __attribute__((always_inline))
#define CUDAL1_INLINE CUDAL1_INLINED inline

constexpr int64_t width = 8;
using lanes = float __attribute__((vector_size(width * sizeof(float))));
using words = int32_t __attribute__((vector_size(width * sizeof(int32_t))));
using halves = uint16_t __attribute__((vector_size(width * sizeof(uint16_t))));

// By reference: a vector as a result has no fixed ABI without AVX.
CUDAL1_INLINE void load(const float* from, lanes& to) {
  std::memcpy(&to, from, sizeof to);
}
CUDAL1_INLINE void load(const uint16_t* from, lanes& to) {
  constexpr int dropped_bits = 16;
  halves upper;
  std::memcpy(&upper, from, sizeof upper);
  const words bits = __builtin_convertvector(upper, words) << dropped_bits;
  std::memcpy(&to, &bits, sizeof to);
}
CUDAL1_INLINE void store(const lanes& from, float* to) {
  std::memcpy(to, &from, sizeof from);
}

CUDAL1_INLINE float sum_of(const lanes& v) {
  return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

// exp(x) for x <= 0: 2^n e^r with |r| <= log(2) / 2, and the Taylor series of e^r.
CUDAL1_INLINE void exponential(lanes& x) {
  constexpr float least = -87, log2_e = 1.44269504F, ln_2_high = 0.693359375F, ln_2_low = -2.12194440e-4F;
  constexpr float to_integer = 12582912;  // 1.5 * 2^23: what is added to it is rounded to an integer
  constexpr int32_t mantissa_bits = 23, bias = 127;
  const lanes lowest = lanes{} + least;
  const lanes bound = x < lowest ? lowest : x;
  const lanes shifted = bound * log2_e + to_integer;
  const lanes n = shifted - to_integer;
  const lanes r = (bound - n * ln_2_high) - n * ln_2_low;
  lanes sum = r * (1.0F / 5040) + 1.0F / 720;
  for (const float c : {1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F})
    sum = sum * r + c;
  const words power = (__builtin_convertvector(n, words) + bias) << mantissa_bits;
  lanes scale;
  std::memcpy(&scale, &power, sizeof scale);
  x = sum * scale;
}

// Scores become weights; the result is their sum. `count` is padded to a multiple of the width with -infinity.
CUDAL1_INLINE float soften(float* scores, int64_t count) {
  lanes largest, x, sum = {};
  load(scores, largest);
  for (int64_t i = width; i < count; i += width) {
    load(scores + i, x);
    largest = x > largest ? x : largest;
  }
  float most = largest[0];
  for (int64_t i = 1; i < width; ++i)
    most = std::max(most, largest[i]);
  for (int64_t i = 0; i < count; i += width) {
    load(scores + i, x);
    x -= most;
    exponential(x);
    store(x, scores + i);
    sum += x;
  }
  return sum_of(sum);
}

// Of `queries` heads that share the keys: each key is read once for all of them.
template <int queries, class Element>
CUDAL1_INLINE void score_keys(const attention_sizes& s, const float* query, const Element* key, int64_t count,
                              float scale, float* scores, int64_t apart) {
  for (int64_t p = 0; p < count; ++p, key += s.kv_heads * s.head_size) {
    lanes sums[queries] = {}, q, k;
    for (int64_t d = 0; d < s.head_size; d += width) {
      load(key + d, k);
      for (int i = 0; i < queries; ++i) {
        load(query + i * s.head_size + d, q);
        sums[i] += q * k;
      }
    }
    for (int i = 0; i < queries; ++i)
      scores[i * apart + p] = sum_of(sums[i]) * scale;
  }
}

// Scores of a head's place in the group are `apart` those of the one before it.
template <class Element>
CUDAL1_INLINE void add_scores(const attention_sizes& s, int64_t group, const float* query, const Element* key,
                              int64_t count, float scale, float* scores, int64_t apart) {
  constexpr int most = 4, two = 2, three = 3;
  for (; group >= most; group -= most, query += most * s.head_size, scores += most * apart)
    score_keys<most>(s, query, key, count, scale, scores, apart);
  if (group == three) score_keys<three>(s, query, key, count, scale, scores, apart);
  if (group == two) score_keys<two>(s, query, key, count, scale, scores, apart);
  if (group == 1) score_keys<1>(s, query, key, count, scale, scores, apart);
}

// Of `parts` vectors side by side, so that no addition waits for the one before it.
template <int parts, class Element>
CUDAL1_INLINE void add_columns(int64_t stride, const float* weights, const Element* value, int64_t count,
                               float* mixed) {
  lanes sums[parts], v;
  for (int i = 0; i < parts; ++i)
    load(mixed + i * width, sums[i]);
  for (int64_t p = 0; p < count; ++p, value += stride)
    for (int i = 0; i < parts; ++i) {
      load(value + i * width, v);
      sums[i] += v * weights[p];
    }
  for (int i = 0; i < parts; ++i)
    store(sums[i], mixed + i * width);
}

template <class Element>
CUDAL1_INLINE void add_values(const attention_sizes& s, const float* weights, const Element* value, int64_t count,
                              float* mixed) {
  constexpr int most = 8;
  const int64_t stride = s.kv_heads * s.head_size;
  int64_t d = 0;
  for (; d + most * width <= s.head_size; d += most * width)
    add_columns<most>(stride, weights, value + d, count, mixed + d);
  for (; d < s.head_size; d += width)
    add_columns<1>(stride, weights, value + d, count, mixed + d);
}

// `scores`: one for each position, padded.
template <class Element>
CUDAL1_INLINE void attend(const attention_sizes& s, const paged_text& text, const float* query, const Element* keys,
                          const Element* values, float* mixed, std::vector<float>& scores) {
  const int64_t group = s.heads / s.kv_heads, padded = (text.length + width - 1) / width * width;
  const float scale = 1 / std::sqrt(static_cast<float>(s.head_size));
  scores.resize(static_cast<std::size_t>(group * padded));
  float* const all = scores.data();
  std::fill(mixed, mixed + s.heads * s.head_size, 0.0F);
  // A page's part of one head stays in the first cache for all heads of the group.
  const auto each_page = [&](const Element* from, int64_t head, const auto& work) CUDAL1_INLINED {
    for (int64_t first = 0; first < text.length; first += s.page_tokens) {
      const int64_t page = text.pages[static_cast<std::size_t>(first / s.page_tokens)];
      work(first, from + (page * s.page_tokens * s.kv_heads + head) * s.head_size,
           std::min(s.page_tokens, text.length - first));
    }
  };
  for (int64_t head = 0; head < s.kv_heads; ++head) {
    const int64_t place = head * group * s.head_size;
    each_page(keys, head, [&](int64_t first, const Element* at, int64_t count) CUDAL1_INLINED {
      add_scores(s, group, query + place, at, count, scale, all + first, padded);
    });
    for (int64_t g = 0; g < group; ++g) {
      float* of = all + g * padded;
      std::fill(of + text.length, of + padded, -INFINITY);
      const float sum = soften(of, padded);
      for (int64_t p = 0; p < text.length; ++p)
        of[p] /= sum;
    }
    each_page(values, head, [&](int64_t first, const Element* at, int64_t count) CUDAL1_INLINED {
      for (int64_t g = 0; g < group; ++g)
        add_values(s, all + g * padded + first, at, count, mixed + place + g * s.head_size);
    });
  }
}

// A name of a processor as in arch=haswell would be for that one alone.
#define CUDAL1_CLONES [[gnu::target_clones("arch=x86-64-v3", "default")]]
CUDAL1_CLONES void attend_floats(const attention_sizes& s, const paged_text& text, const float* query,
                                 const float* keys, const float* values, float* mixed, std::vector<float>& scores) {
  attend(s, text, query, keys, values, mixed, scores);
}
CUDAL1_CLONES void attend_halves(const attention_sizes& s, const paged_text& text, const float* query,
                                 const uint16_t* keys, const uint16_t* values, float* mixed,
                                 std::vector<float>& scores) {
  attend(s, text, query, keys, values, mixed, scores);
}
#undef CUDAL1_CLONES
#undef CUDAL1_INLINE
#undef CUDAL1_INLINED

}  // namespace

bool can_attend_pages(const attention_sizes& s) {
  return s.head_size % width == 0 && s.kv_heads > 0 && s.heads % s.kv_heads == 0;
}

void attend_pages(const attention_sizes& s, const paged_text& text, const float* query, const float* keys,
                  const float* values, float* mixed) {
  thread_local std::vector<float> scores;
  attend_floats(s, text, query, keys, values, mixed, scores);
}

void attend_pages(const attention_sizes& s, const paged_text& text, const float* query, const uint16_t* keys,
                  const uint16_t* values, float* mixed) {
  thread_local std::vector<float> scores;
  attend_halves(s, text, query, keys, values, mixed, scores);
}

}  // namespace cudal1
