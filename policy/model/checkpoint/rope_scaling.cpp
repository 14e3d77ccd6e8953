#include "policy/model/checkpoint/rope_scaling.hpp"

#include <algorithm>
#include <cmath>

namespace cudal1 {

namespace {

// Llama 3.1: long waves are stretched, short ones are not, those between are in part.
void apply_llama3(const rope_scaling& how, double original, std::vector<double>& frequencies) {
  const double longest = original / how.low_frequency_factor, shortest = original / how.high_frequency_factor;
  for (double& f : frequencies) {
    const double wave = 2 * M_PI / f;
    if (wave < shortest) continue;
    if (wave > longest) {
      f /= how.factor;
      continue;
    }
    const double smooth =
        (original / wave - how.low_frequency_factor) / (how.high_frequency_factor - how.low_frequency_factor);
    f = (1 - smooth) * f / how.factor + smooth * f;
  }
}

// YaRN (arXiv 2309.00071), as Hugging Face computes it.
void apply_yarn(const rope_scaling& how, double original, model_shape& shape) {
  auto& frequencies = shape.rope_frequencies;
  const auto size = static_cast<double>(shape.head_size());
  // The pair of elements whose wave turns so often within the original context.
  const auto pair_of = [&](double turns) {
    return size * std::log(original / (turns * 2 * M_PI)) / (2 * std::log(shape.rope_base));
  };
  double low = pair_of(how.beta_fast), high = pair_of(how.beta_slow);
  if (how.is_truncated) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= stretched / how.factor + (1 - stretched);
  }
  const auto scale_of = [&](double m) { return how.factor <= 1 ? 1.0 : 0.1 * m * std::log(how.factor) + 1; };
  if (how.attention_factor)
    shape.rope_magnitude = *how.attention_factor;
  else if (how.mscale.value_or(0) != 0 && how.mscale_all_dim.value_or(0) != 0)
    shape.rope_magnitude = scale_of(*how.mscale) / scale_of(*how.mscale_all_dim);
  else
    shape.rope_magnitude = scale_of(1);
}

}  // namespace

expected<void> apply_rope_scaling(const rope_scaling& how, model_shape& shape) {
  if (how.type == "default" || how.type == "dynamic") return {};
  if (how.type != "linear" && how.type != "llama3" && how.type != "yarn")
    return fail(errc::unsupported,
                "rotary positions scaled as \"{}\" are not supported; default, linear, dynamic, llama3 and yarn are",
                how.type);
  const double original = how.original_context > 0 ? how.original_context : static_cast<double>(shape.context);
  const bool usable = how.factor >= 1 && original >= 1 && how.low_frequency_factor > 0 &&
                      how.high_frequency_factor > how.low_frequency_factor && how.beta_fast > 0 && how.beta_slow > 0;
  if (!usable || shape.rope_base <= 1)
    return fail(errc::corrupt, "the numbers of the {} scaling of rotary positions are not usable", how.type);
  shape.rope_frequencies = frequencies_of(shape);
  if (how.type == "linear")
    for (double& f : shape.rope_frequencies)
      f /= how.factor;
  if (how.type == "llama3") apply_llama3(how, original, shape.rope_frequencies);
  if (how.type == "yarn") apply_yarn(how, original, shape);
  return {};
}

}  // namespace cudal1
