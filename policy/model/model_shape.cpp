#include "policy/model/model_shape.hpp"

namespace cudal1 {

int64_t model_shape::parameters() const {
  const int64_t kv_width = kv_heads * head_size();
  const int64_t attention = 2 * width * width + 2 * width * kv_width;
  return (vocabulary + value_features()) * width + layers * (attention + 3 * width * hidden + 2 * width) + width;
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
  if (s.width % s.heads != 0 || s.head_size() % 2 != 0)
    return fail(errc::invalid_argument, "a model of width {} cannot have {} heads of an even size", s.width, s.heads);
  if (s.heads % s.kv_heads != 0)
    return fail(errc::invalid_argument, "{} heads cannot share {} heads of keys and values", s.heads, s.kv_heads);
  return {};
}

}  // namespace cudal1
