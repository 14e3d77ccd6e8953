#include "policy/model/checkpoint/pretrained_weights.hpp"

#include <cstring>
#include <filesystem>

#include "policy/model/checkpoint/half_floats.hpp"

namespace cudal1 {

expected<std::unique_ptr<pretrained_weights>> pretrained_weights::open(const std::string& path) {
  std::error_code ignored;
  if (path.ends_with(".gguf")) return open_gguf_checkpoint(path);
  if (std::filesystem::is_directory(path, ignored)) return open_hugging_face_folder(path);
  return fail(errc::not_found,
              "{}: is neither a folder with config.json and *.safetensors nor a file *.gguf; `huggingface-cli download "
              "MODEL --local-dir FOLDER` makes such a folder",
              path);
}

void write_floats(std::span<const float> values, dtype as, std::byte* out) {
  if (as == dtype::float32) {
    std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = bfloat16_of(values[i]);
    std::memcpy(out + i * sizeof half, &half, sizeof half);
  }
}

}  // namespace cudal1
