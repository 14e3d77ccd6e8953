#include "policy/model/model_shape.hpp"

#include <algorithm>
#include <cmath>

namespace cudal1 {

int64_t model_shape::parameters() const {
  const int64_t attention = 2 * width * query_width() + 2 * width * kv_width() +
                            (has_qkv_bias ? query_width() + 2 * kv_width() : 0) + (has_qk_norm ? 2 * head_size() : 0);
  const int64_t embeddings = (is_tied ? 1 : 2) * vocabulary * width + value_features() * width;
  return embeddings + layers * (attention + 3 * width * hidden + 2 * width) + width;
}

expected<void> check_shape(const model_shape& s) {
  for (const auto& [name, value] :
       {std::pair("vocabulary", s.vocabulary), std::pair("layers", s.layers), std::pair("width", s.width),
        std::pair("heads", s.heads), std::pair("kv_heads", s.kv_heads), std::pair("hidden", s.hidden),
        std::pair("context", s.context)})
    if (value < 1 || value > (1 << 20))
      return fail(errc::invalid_argument, "a model's {} is {}, and should be from 1 to 2^20", name, value);
  if (s.value_periods < 0 || s.value_periods > 16)
    return fail(errc::invalid_argument, "a model's value_periods are {}, and should be from 0 to 16", s.value_periods);
  if (s.head_elements < 0 || s.head_elements > (1 << 16) || s.head_elements % 2 != 0)
    return fail(errc::invalid_argument, "heads of {} elements should have an even number up to 65536", s.head_elements);
  if (s.head_elements == 0 && (s.width % s.heads != 0 || s.head_size() % 2 != 0))
    return fail(errc::invalid_argument, "a model of width {} cannot have {} heads of an even size", s.width, s.heads);
  if (s.heads % s.kv_heads != 0)
    return fail(errc::invalid_argument, "{} heads cannot share {} heads of keys and values", s.heads, s.kv_heads);
  const auto usable = [](double f) { return std::isfinite(f) && f >= 0; };
  if (!s.rope_frequencies.empty() && static_cast<int64_t>(s.rope_frequencies.size()) != s.head_size() / 2)
    return fail(errc::invalid_argument, "heads of {} elements have {} rotary frequencies, and should have {}",
                s.head_size(), s.rope_frequencies.size(), s.head_size() / 2);
  if (!std::ranges::all_of(s.rope_frequencies, usable) || !usable(s.rope_magnitude) || !usable(s.norm_epsilon) ||
      !usable(s.rope_base) || s.rope_base < 1)
    return fail(errc::invalid_argument, "a model's rotary frequencies or norm's epsilon are not usable numbers");
  return {};
}

std::vector<double> frequencies_of(const model_shape& s) {
  if (!s.rope_frequencies.empty()) return s.rope_frequencies;
  std::vector<double> out;
  for (int64_t i = 0; i < s.head_size(); i += 2)
    out.push_back(std::pow(s.rope_base, -static_cast<double>(i) / static_cast<double>(s.head_size())));
  return out;
}

}  // namespace cudal1
