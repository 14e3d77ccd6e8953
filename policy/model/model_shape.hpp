// The sizes of a language model: a decoder-only transformer as Llama's (RMSNorm, rotary positions, grouped-query
// attention, SwiGLU), with what Qwen2 (biases) and Qwen3 (norms of queries and keys, heads of their own size) add.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

struct model_shape {
  int64_t vocabulary = 512;  // tokens
  int64_t layers = 8;
  int64_t width = 192;    // of the residual stream
  int64_t heads = 6;      // of queries
  int64_t kv_heads = 2;   // of keys and values; a divisor of `heads`
  int64_t hidden = 512;   // of the feed-forward layers
  int64_t context = 512;  // longest sequence, in tokens
  // Periods of the waves that a token's value is seen through: 4, 8, 16, ...; 0: tokens have no values, as in Llama.
  int64_t value_periods = 0;
  double rope_base = 1e4;
  double norm_epsilon = 1e-6;
  int64_t head_elements = 0;                  // of each head, an even number; 0: width / heads
  bool is_tied = true;                        // the last layer has the embedding's weights
  bool has_qkv_bias = false;                  // queries, keys and values have biases, as in Qwen2
  bool has_qk_norm = false;                   // queries and keys of each head are normed, as in Qwen3
  std::vector<double> rope_frequencies = {};  // by pair of elements, radians a token; empty: from rope_base
  double rope_magnitude = 1;                  // of rotated queries and keys (YaRN's attention factor)

  int64_t head_size() const { return head_elements > 0 ? head_elements : width / heads; }
  int64_t query_width() const { return heads * head_size(); }
  int64_t kv_width() const { return kv_heads * head_size(); }
  int64_t cached_elements() const { return 2 * layers * kv_width(); }  // keys and values of a token
  int64_t value_features() const { return value_periods > 0 ? 1 + 2 * value_periods : 0; }
  int64_t parameters() const;
  bool operator==(const model_shape&) const = default;
};
BOOST_DESCRIBE_STRUCT(model_shape, (),
                      (vocabulary, layers, width, heads, kv_heads, hidden, context, value_periods, rope_base,
                       norm_epsilon, head_elements, is_tied, has_qkv_bias, has_qk_norm, rope_frequencies,
                       rope_magnitude))

// By pair of elements of a head, in radians a token: rope_frequencies, or base^(-2i/head_size).
std::vector<double> frequencies_of(const model_shape& s);

// errc::invalid_argument that names the number which does not fit.
expected<void> check_shape(const model_shape& s);

}  // namespace cudal1
