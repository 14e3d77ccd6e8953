// The sizes of a language model: a decoder-only transformer as Llama's (RMSNorm, rotary positions, grouped-query
// attention, SwiGLU, tied embeddings).
#pragma once

#include <cstdint>
#include <string>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

struct model_shape {
  int64_t vocabulary = 512;  // tokens
  int64_t layers = 8;
  int64_t width = 192;    // of the residual stream
  int64_t heads = 6;      // of queries; each has width / heads elements, an even number
  int64_t kv_heads = 2;   // of keys and values; a divisor of `heads`
  int64_t hidden = 512;   // of the feed-forward layers
  int64_t context = 512;  // longest sequence, in tokens
  // Periods of the waves that a token's value is seen through: 4, 8, 16, ...; 0: tokens have no values, as in Llama.
  int64_t value_periods = 0;
  double rope_base = 1e4;
  double norm_epsilon = 1e-6;

  int64_t head_size() const { return width / heads; }
  int64_t value_features() const { return value_periods > 0 ? 1 + 2 * value_periods : 0; }
  int64_t parameters() const;
  bool operator==(const model_shape&) const = default;
};
BOOST_DESCRIBE_STRUCT(model_shape, (),
                      (vocabulary, layers, width, heads, kv_heads, hidden, context, value_periods, rope_base,
                       norm_epsilon))

// errc::invalid_argument that names the number which does not fit.
expected<void> check_shape(const model_shape& s);

}  // namespace cudal1
