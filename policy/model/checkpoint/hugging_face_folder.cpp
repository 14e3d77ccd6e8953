// A Hugging Face folder: config.json, and model.safetensors or the shards of model.safetensors.index.json.
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include <boost/describe.hpp>

#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"
#include "policy/model/checkpoint/half_floats.hpp"
#include "policy/model/checkpoint/pretrained_weights.hpp"
#include "policy/model/checkpoint/rope_scaling.hpp"
#include "sandbox/program/safetensors.hpp"

namespace cudal1 {

namespace {

// Of `rope_scaling` and, in newer folders, `rope_parameters`.
struct rope_settings {
  std::optional<std::string> rope_type, type;
  std::optional<double> rope_theta, factor, low_freq_factor, high_freq_factor, original_max_position_embeddings,
      beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, partial_rotary_factor;
  std::optional<bool> truncate;
};
BOOST_DESCRIBE_STRUCT(rope_settings, (),
                      (rope_type, type, rope_theta, factor, low_freq_factor, high_freq_factor,
                       original_max_position_embeddings, beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim,
                       partial_rotary_factor, truncate))

// What is read of config.json, by its names there.
struct folder_config {
  std::string model_type;
  int64_t vocab_size = 0, num_hidden_layers = 0, hidden_size = 0, num_attention_heads = 0, intermediate_size = 0,
          max_position_embeddings = 2048;
  std::optional<int64_t> num_key_value_heads, head_dim, sliding_window;
  std::optional<bool> tie_word_embeddings, attention_bias, mlp_bias, use_sliding_window;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  std::optional<double> rope_theta, partial_rotary_factor;
  std::optional<rope_settings> rope_scaling, rope_parameters;
  std::optional<json> quantization_config;
};
BOOST_DESCRIBE_STRUCT(folder_config, (),
                      (model_type, vocab_size, num_hidden_layers, hidden_size, num_attention_heads, intermediate_size,
                       max_position_embeddings, num_key_value_heads, head_dim, sliding_window, tie_word_embeddings,
                       attention_bias, mlp_bias, use_sliding_window, hidden_act, rms_norm_eps, rope_theta,
                       partial_rotary_factor, rope_scaling, rope_parameters, quantization_config))

constexpr int64_t qwen3_head_dim = 128;  // where its config.json has none

expected<void> check_layout(const folder_config& c) {
  const auto refuse = [](const std::string& what) { return fail(errc::unsupported, "config.json: {}", what); };
  if (c.model_type != "llama" && c.model_type != "mistral" && c.model_type != "qwen2" && c.model_type != "qwen3")
    return refuse("model_type \"" + c.model_type + "\" is not supported; llama, mistral, qwen2 and qwen3 are");
  if (c.hidden_act != "silu") return refuse("hidden_act \"" + c.hidden_act + "\" is not supported; silu is");
  if (c.attention_bias.value_or(false) || c.mlp_bias.value_or(false))
    return refuse("biases other than those of Qwen2 are not supported");
  if (c.model_type == "mistral" ? c.sliding_window.has_value() : c.use_sliding_window.value_or(false))
    return refuse("sliding windows are not supported");
  if (c.quantization_config) return refuse("quantised weights are not supported in this form; a GGUF file is");
  const double rotary = c.rope_parameters && c.rope_parameters->partial_rotary_factor
                            ? *c.rope_parameters->partial_rotary_factor
                            : c.partial_rotary_factor.value_or(1);
  if (rotary != 1) return refuse("positions that rotate a part of each head are not supported");
  if (c.num_attention_heads < 1 || c.num_hidden_layers < 1)
    return fail(errc::corrupt, "config.json: num_attention_heads or num_hidden_layers are missing");
  return {};
}

rope_scaling scaling_of(const rope_settings& s) {
  rope_scaling out;
  out.type = s.rope_type ? *s.rope_type : s.type.value_or(out.type);
  out.factor = s.factor.value_or(out.factor);
  out.low_frequency_factor = s.low_freq_factor.value_or(out.low_frequency_factor);
  out.high_frequency_factor = s.high_freq_factor.value_or(out.high_frequency_factor);
  out.original_context = s.original_max_position_embeddings.value_or(out.original_context);
  out.beta_fast = s.beta_fast.value_or(out.beta_fast);
  out.beta_slow = s.beta_slow.value_or(out.beta_slow);
  out.attention_factor = s.attention_factor;
  out.mscale = s.mscale;
  out.mscale_all_dim = s.mscale_all_dim;
  out.is_truncated = s.truncate.value_or(out.is_truncated);
  return out;
}

expected<model_shape> shape_of(const folder_config& c) {
  CUDAL1_CHECK(check_layout(c));
  model_shape s;
  s.vocabulary = c.vocab_size;
  s.layers = c.num_hidden_layers;
  s.width = c.hidden_size;
  s.heads = c.num_attention_heads;
  s.kv_heads = c.num_key_value_heads.value_or(c.num_attention_heads);
  s.hidden = c.intermediate_size;
  s.context = c.max_position_embeddings;
  s.norm_epsilon = c.rms_norm_eps;
  s.head_elements = c.head_dim.value_or(c.model_type == "qwen3" ? qwen3_head_dim : s.width / s.heads);
  s.is_tied = c.tie_word_embeddings.value_or(false);
  s.has_qkv_bias = c.model_type == "qwen2";
  s.has_qk_norm = c.model_type == "qwen3";
  const auto& rope = c.rope_parameters ? c.rope_parameters : c.rope_scaling;
  s.rope_base = rope && rope->rope_theta ? *rope->rope_theta : c.rope_theta.value_or(s.rope_base);
  CUDAL1_CHECK(check_shape(s));
  if (rope) CUDAL1_CHECK(apply_rope_scaling(scaling_of(*rope), s));
  CUDAL1_CHECK(check_shape(s));
  return s;
}

// The files with the weights, by name: each once.
expected<std::vector<std::string>> weight_files(const std::string& folder) {
  std::error_code ignored;
  const std::string index = folder + "/model.safetensors.index.json";
  if (!std::filesystem::exists(index, ignored)) return std::vector<std::string>{"model.safetensors"};
  CUDAL1_TRY(const std::string text, read_text_file(index));
  const auto read = json::parse(text);
  if (!read) return fail_in(index, read.error());
  const json* map = read->find("weight_map");
  if (map == nullptr || !map->is_object()) return fail(errc::corrupt, "{}: has no weight_map", index);
  std::map<std::string, bool> names;
  for (const auto& [weight, file] : map->as_object()) {
    if (!file.is_string() || file.as_string().empty() || file.as_string().find('/') != std::string::npos)
      return fail(errc::corrupt, "{}: the weight {} should be in a file of the same folder", index, weight);
    names[file.as_string()] = true;
  }
  std::vector<std::string> out;
  for (const auto& [name, once] : names)
    out.push_back(name);
  return out;
}

float element(const stored_tensor& from, std::size_t i) {
  if (from.type == dtype::float32) {
    float value = 0;
    std::memcpy(&value, from.bytes.data() + i * sizeof value, sizeof value);
    return value;
  }
  uint16_t half = 0;
  std::memcpy(&half, from.bytes.data() + i * sizeof half, sizeof half);
  return from.type == dtype::bfloat16 ? float_of_bfloat16(half) : float_of_float16(half);
}

class hugging_face_folder final : public pretrained_weights {
 public:
  expected<void> open(const std::string& folder) {
    CUDAL1_TRY(const std::string text, read_text_file(folder + "/config.json"));
    const auto config = from_text<folder_config>(text);
    if (!config) return fail_in(folder + "/config.json", config.error());
    auto shape = shape_of(*config);
    if (!shape) return fail_in(folder, shape.error());
    shape_ = std::move(*shape);
    folder_ = folder;
    CUDAL1_TRY(const auto names, weight_files(folder));
    for (const auto& name : names) {
      CUDAL1_TRY(auto file, safetensors_file::open(folder + "/" + name));
      files_.push_back(std::move(file));
    }
    return {};
  }

  expected<void> read(const std::string& weight, const std::vector<int64_t>& size, dtype as,
                      std::span<std::byte> out) const override {
    for (const auto& file : files_) {
      const auto found = file.tensors().find(weight);
      if (found == file.tensors().end()) continue;
      const stored_tensor& stored = found->second;
      if (stored.shape != size || (stored.type != dtype::float32 && !is_half(stored.type)))
        return fail(errc::corrupt, "{}: {} is {}, and should be {}, or in a half type", folder_, weight,
                    contiguous(stored.type, stored.shape).text(), contiguous(dtype::float32, size).text());
      if (stored.type == as) {
        std::memcpy(out.data(), stored.bytes.data(), stored.bytes.size());
        return {};
      }
      const auto count = static_cast<std::size_t>(contiguous(as, size).numel());
      for (std::size_t i = 0; i < count; ++i) {
        const float value = element(stored, i);
        write_floats({&value, 1}, as, out.data() + i * static_cast<std::size_t>(size_of(as)));
      }
      return {};
    }
    return fail(errc::not_found, "{}: none of its {} safetensors files has the weight {}", folder_, files_.size(),
                weight);
  }

 private:
  std::string folder_;
  std::vector<safetensors_file> files_;
};

}  // namespace

expected<std::unique_ptr<pretrained_weights>> open_hugging_face_folder(const std::string& folder) {
  auto made = std::make_unique<hugging_face_folder>();
  CUDAL1_CHECK(made->open(folder));
  return made;
}

}  // namespace cudal1
