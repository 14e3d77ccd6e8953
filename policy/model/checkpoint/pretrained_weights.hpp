// The weights of a pretrained language model: a Hugging Face folder (config.json, safetensors) or a GGUF file, of the
// layouts of Llama, Qwen2 and Qwen3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/model_shape.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

class pretrained_weights {
 public:
  // A folder, or a file whose name ends with .gguf. errc::not_found, errc::corrupt, errc::unsupported say where and
  // what: an architecture or an element type that is not known, a number that does not fit.
  static expected<std::unique_ptr<pretrained_weights>> open(const std::string& path);
  virtual ~pretrained_weights() = default;

  const model_shape& shape() const { return shape_; }
  // A weight by its name in Llama's checkpoints ("model.layers.0.self_attn.q_proj.weight"), as float32 or bfloat16,
  // row-major: `out` has room for `size`. errc::not_found, errc::corrupt where it has another shape.
  virtual expected<void> read(const std::string& weight, const std::vector<int64_t>& size, dtype as,
                              std::span<std::byte> out) const = 0;

 protected:
  model_shape shape_;
};

// Each opens one kind.
expected<std::unique_ptr<pretrained_weights>> open_hugging_face_folder(const std::string& folder);
expected<std::unique_ptr<pretrained_weights>> open_gguf_checkpoint(const std::string& path);

// `values` as float32 or bfloat16 (rounded to nearest).
void write_floats(std::span<const float> values, dtype as, std::byte* out);

}  // namespace cudal1
