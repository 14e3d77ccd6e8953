// A GGUF file with a model of the layout of Llama, Qwen2 or Qwen3.
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/model/checkpoint/gguf_file.hpp"
#include "policy/model/checkpoint/pretrained_weights.hpp"
#include "policy/model/checkpoint/rope_scaling.hpp"

namespace cudal1 {

namespace {

// Llama's names, and those in GGUF files. Those of layers stand after "model.layers.N." and "blk.N.".
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> outer_names{
    {{"model.embed_tokens.weight", "token_embd.weight"},
     {"model.norm.weight", "output_norm.weight"},
     {"lm_head.weight", "output.weight"}}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> layer_names{
    {{"input_layernorm.weight", "attn_norm.weight"},
     {"self_attn.q_proj.weight", "attn_q.weight"},
     {"self_attn.k_proj.weight", "attn_k.weight"},
     {"self_attn.v_proj.weight", "attn_v.weight"},
     {"self_attn.q_proj.bias", "attn_q.bias"},
     {"self_attn.k_proj.bias", "attn_k.bias"},
     {"self_attn.v_proj.bias", "attn_v.bias"},
     {"self_attn.q_norm.weight", "attn_q_norm.weight"},
     {"self_attn.k_norm.weight", "attn_k_norm.weight"},
     {"self_attn.o_proj.weight", "attn_output.weight"},
     {"post_attention_layernorm.weight", "ffn_norm.weight"},
     {"mlp.gate_proj.weight", "ffn_gate.weight"},
     {"mlp.up_proj.weight", "ffn_up.weight"},
     {"mlp.down_proj.weight", "ffn_down.weight"}}};

constexpr std::string_view layer_prefix = "model.layers.";

std::string gguf_name(const std::string& weight) {
  for (const auto& [ours, theirs] : outer_names)
    if (weight == ours) return std::string(theirs);
  if (!weight.starts_with(layer_prefix)) return "";
  const auto dot = weight.find('.', layer_prefix.size());
  for (const auto& [ours, theirs] : layer_names)
    if (weight.substr(dot + 1) == ours)
      return "blk." + weight.substr(layer_prefix.size(), dot - layer_prefix.size()) + "." + std::string(theirs);
  return "";
}

class gguf_checkpoint final : public pretrained_weights {
 public:
  expected<void> open(const std::string& path) {
    CUDAL1_TRY(auto file, gguf_file::open(path));
    file_ = std::move(file);
    auto shape = read_shape();
    if (!shape) return fail_in(path, shape.error());
    shape_ = std::move(*shape);
    return {};
  }

  expected<void> read(const std::string& weight, const std::vector<int64_t>& size, dtype as,
                      std::span<std::byte> out) const override {
    const std::string name = gguf_name(weight);
    const auto found = file_.tensors().find(name);
    if (found == file_.tensors().end())
      return fail(errc::not_found, "{}: has no tensor {} ({})", file_.name(), name, weight);
    const gguf_tensor& stored = found->second;
    if (stored.shape != size)
      return fail(errc::corrupt, "{}: {} is {}, and should be {}", file_.name(), name,
                  contiguous(dtype::float32, stored.shape).text(), contiguous(dtype::float32, size).text());
    const auto columns = static_cast<std::size_t>(size.back());
    const auto rows = static_cast<int64_t>(size.size() == 1 ? 1 : size.front());
    const std::size_t row_bytes = stored.blocks.size() / static_cast<std::size_t>(rows);
    const std::size_t row_out = columns * static_cast<std::size_t>(size_of(as));
    std::vector<float> row(columns);
    for (int64_t r = 0; r < rows; ++r) {
      read_blocks(*stored.type, stored.blocks.subspan(static_cast<std::size_t>(r) * row_bytes, row_bytes), row);
      write_floats(row, as, out.data() + static_cast<std::size_t>(row_in_checkpoint(weight, r)) * row_out);
    }
    return {};
  }

 private:
  // Files of Llama's architecture have the rows of Q and K in the order of rotated pairs: 2i and 2i + 1 belong
  // together, where they are i and i + size / 2 in Hugging Face's checkpoints.
  int64_t row_in_checkpoint(const std::string& weight, int64_t row) const {
    if (!is_permuted_ || !(weight.ends_with("q_proj.weight") || weight.ends_with("k_proj.weight"))) return row;
    const int64_t head = shape_.head_size(), within = row % head;
    return row - within + within % 2 * (head / 2) + within / 2;
  }

  expected<int64_t> number(const std::string& key) const { return file_.required<int64_t>(architecture_ + "." + key); }
  expected<int64_t> number(const std::string& key, int64_t otherwise) const {
    CUDAL1_TRY(const auto found, file_.optional<int64_t>(architecture_ + "." + key));
    return found.value_or(otherwise);
  }
  expected<double> real(const std::string& key, double otherwise) const {
    CUDAL1_TRY(const auto found, file_.optional<double>(architecture_ + "." + key));
    return found.value_or(otherwise);
  }

  expected<model_shape> read_shape() {
    CUDAL1_TRY(architecture_, file_.required<std::string>("general.architecture"));
    if (architecture_ != "llama" && architecture_ != "qwen2" && architecture_ != "qwen3")
      return fail(errc::unsupported, "the architecture \"{}\" is not supported; llama, qwen2 and qwen3 are",
                  architecture_);
    is_permuted_ = architecture_ == "llama";
    CUDAL1_TRY(const int64_t experts, number("expert_count", 0));
    if (experts > 0) return fail(errc::unsupported, "mixtures of experts are not supported");
    model_shape s;
    const auto embedding = file_.tensors().find("token_embd.weight");
    if (embedding == file_.tensors().end() || embedding->second.shape.size() != 2)
      return fail(errc::corrupt, "has no matrix token_embd.weight");
    s.vocabulary = embedding->second.shape.front();
    CUDAL1_TRY(s.layers, number("block_count"));
    CUDAL1_TRY(s.width, number("embedding_length"));
    CUDAL1_TRY(s.heads, number("attention.head_count"));
    CUDAL1_TRY(s.kv_heads, number("attention.head_count_kv", s.heads));
    CUDAL1_TRY(s.hidden, number("feed_forward_length"));
    CUDAL1_TRY(s.context, number("context_length"));
    if (s.heads < 1) return fail(errc::corrupt, "{} heads are not usable", s.heads);
    CUDAL1_TRY(s.head_elements, number("attention.key_length", s.width / s.heads));
    CUDAL1_TRY(const int64_t rotated, number("rope.dimension_count", s.head_elements));
    if (rotated != s.head_elements)
      return fail(errc::unsupported, "positions that rotate {} of {} elements are not supported", rotated,
                  s.head_elements);
    CUDAL1_TRY(s.norm_epsilon, real("attention.layer_norm_rms_epsilon", s.norm_epsilon));
    CUDAL1_TRY(s.rope_base, real("rope.freq_base", s.rope_base));
    s.is_tied = !file_.tensors().contains("output.weight");
    s.has_qkv_bias = file_.tensors().contains("blk.0.attn_q.bias");
    s.has_qk_norm = file_.tensors().contains("blk.0.attn_q_norm.weight");
    if (is_permuted_ && s.has_qkv_bias)
      return fail(errc::unsupported, "biases in a file of Llama's architecture are not supported");
    CUDAL1_CHECK(check_shape(s));
    CUDAL1_CHECK(stretch(s));
    CUDAL1_CHECK(check_shape(s));
    return s;
  }

  expected<void> stretch(model_shape& s) const {
    rope_scaling how;
    CUDAL1_TRY(const auto type, file_.optional<std::string>(architecture_ + ".rope.scaling.type"));
    if (type && *type != "none") how.type = *type;
    CUDAL1_TRY(how.factor, real("rope.scaling.factor", 1));
    CUDAL1_TRY(const int64_t original, number("rope.scaling.original_context_length", 0));
    how.original_context = static_cast<double>(original);
    CUDAL1_CHECK(apply_rope_scaling(how, s));
    return divide_frequencies(s);
  }

  // Llama 3's scaling is stored as what each frequency is divided by.
  expected<void> divide_frequencies(model_shape& s) const {
    const auto found = file_.tensors().find("rope_freqs.weight");
    if (found == file_.tensors().end()) return {};
    const auto pairs = static_cast<std::size_t>(s.head_size() / 2);
    const gguf_tensor& stored = found->second;
    if (stored.shape != std::vector<int64_t>{static_cast<int64_t>(pairs)})
      return fail(errc::corrupt, "rope_freqs.weight should have {} elements", pairs);
    std::vector<float> factors(pairs);
    read_blocks(*stored.type, stored.blocks, factors);
    s.rope_frequencies = frequencies_of(s);
    for (std::size_t i = 0; i < pairs; ++i)
      s.rope_frequencies[i] /= static_cast<double>(factors[i]);
    return {};
  }

  gguf_file file_;
  std::string architecture_;
  bool is_permuted_ = false;
};

}  // namespace

expected<std::unique_ptr<pretrained_weights>> open_gguf_checkpoint(const std::string& path) {
  auto made = std::make_unique<gguf_checkpoint>();
  CUDAL1_CHECK(made->open(path));
  return made;
}

}  // namespace cudal1
