// How checkpoints stretch rotary positions over contexts longer than those that they were first trained with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/base/error.hpp"
#include "policy/model/model_shape.hpp"

namespace cudal1 {

// The numbers of Hugging Face's configurations, of the same names where they have a short one.
struct rope_scaling {
  std::string type = "default";  // default, linear, dynamic, llama3, yarn
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // llama3
  double original_context = 0;                                 // llama3, yarn; 0: the model's context
  double beta_fast = 32, beta_slow = 1;                        // yarn
  std::optional<double> attention_factor, mscale, mscale_all_dim;
  bool is_truncated = true;
};

// Sets rope_frequencies and rope_magnitude of a shape that has its other numbers. "dynamic" changes nothing within the
// context that the model states, and it is never used beyond. errc::unsupported for other types; errc::corrupt where a
// number is not usable.
expected<void> apply_rope_scaling(const rope_scaling& how, model_shape& shape);

}  // namespace cudal1
