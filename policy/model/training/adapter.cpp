#include "policy/model/training/adapter.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/text_file.hpp"
#include "policy/model/checkpoint/half_floats.hpp"
#include "sandbox/program/safetensors.hpp"

namespace cudal1 {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view peft_prefix = "base_model.model.";
constexpr std::string_view weight_ending = ".weight";
constexpr int64_t most_rank = 4096;

// What is read of adapter_config.json, by its names there.
struct peft_config {
  std::string peft_type;
  int64_t r = 0;
  double lora_alpha = 0;
  std::optional<json> target_modules, modules_to_save, rank_pattern, alpha_pattern;
  std::optional<bool> use_rslora, use_dora, fan_in_fan_out, lora_bias;
  std::optional<std::string> bias;
};
BOOST_DESCRIBE_STRUCT(peft_config, (),
                      (peft_type, r, lora_alpha, target_modules, modules_to_save, rank_pattern, alpha_pattern,
                       use_rslora, use_dora, fan_in_fan_out, lora_bias, bias))

bool is_empty(const std::optional<json>& value) {
  if (!value || value->is_null()) return true;
  if (value->is_object()) return value->as_object().empty();
  return value->is_array() && value->as_array().empty();
}

expected<void> check_config(const peft_config& c) {
  const auto refuse = [](const char* what) {
    return fail(errc::unsupported, "adapter_config.json: {} is not supported; merge the adapter with PEFT", what);
  };
  if (c.peft_type != "LORA")
    return fail(errc::unsupported, "adapter_config.json: peft_type \"{}\" is not supported; LORA is", c.peft_type);
  if (c.use_rslora.value_or(false)) return refuse("use_rslora");
  if (c.use_dora.value_or(false)) return refuse("use_dora");
  if (c.fan_in_fan_out.value_or(false)) return refuse("fan_in_fan_out");
  if (c.lora_bias.value_or(false) || c.bias.value_or("none") != "none") return refuse("a bias");
  if (!is_empty(c.modules_to_save)) return refuse("modules_to_save");
  if (!is_empty(c.rank_pattern) || !is_empty(c.alpha_pattern)) return refuse("rank_pattern or alpha_pattern");
  return {};
}

expected<std::vector<float>> floats_of(const stored_tensor& t, const std::string& name) {
  const std::size_t width = t.type == dtype::float32 ? sizeof(float) : sizeof(uint16_t);
  if (t.type != dtype::float32 && t.type != dtype::float16 && t.type != dtype::bfloat16)
    return fail(errc::unsupported, "{} is neither float32 nor of a half type", name);
  std::vector<float> out(t.bytes.size() / width);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (t.type == dtype::float32) {
      std::memcpy(&out[i], t.bytes.data() + i * width, width);
      continue;
    }
    uint16_t half = 0;
    std::memcpy(&half, t.bytes.data() + i * width, width);
    out[i] = t.type == dtype::bfloat16 ? float_of_bfloat16(half) : float_of_float16(half);
  }
  return out;
}

// "base_model.model.model.layers.0.self_attn.q_proj" of ".lora_A.weight".
std::string peft_name(const std::string& weight) {
  return std::string(peft_prefix) + weight.substr(0, weight.size() - weight_ending.size());
}

// The target that a weight's name ends with, or nothing.
std::optional<std::string> target_of(std::string_view weight) {
  for (const auto& t : adapter_targets)
    if (weight.ends_with("." + t + std::string(weight_ending))) return t;
  return std::nullopt;
}

expected<void> read_tensor(const std::string& name, const stored_tensor& t, int64_t rank, lora_adapter& into) {
  constexpr std::string_view of_a = ".lora_A.weight", of_b = ".lora_B.weight";
  const bool is_a = name.ends_with(of_a), is_b = name.ends_with(of_b);
  if (!name.starts_with(peft_prefix) || (!is_a && !is_b))
    return fail(errc::unsupported, "the tensor {} is no part of a plain LoRA adapter", name);
  const auto inner = std::string_view(name).substr(peft_prefix.size());
  const std::string weight = std::string(inner.substr(0, inner.size() - of_a.size())) + std::string(weight_ending);
  const auto target = target_of(weight);
  if (!target)
    return fail(errc::unsupported, "the tensor {} changes a weight that adapters do not change here: {} may be", name,
                fmt::join(adapter_targets, ", "));
  if (t.shape.size() != 2 || t.shape[is_a ? 0 : 1] != rank)
    return fail(errc::corrupt, "the tensor {} does not have the rank {} of adapter_config.json", name, rank);
  auto& pair = into.pairs[weight];
  CUDAL1_TRY((is_a ? pair.a : pair.b), floats_of(t, name));
  auto& targets = into.options.targets;
  if (std::ranges::count(targets, *target) == 0) targets.push_back(*target);
  return {};
}

stored_tensor stored(const std::vector<float>& values, int64_t rows, int64_t columns) {
  return {dtype::float32, {rows, columns}, std::as_bytes(std::span(values))};
}

json config_of(const lora_adapter& a, const std::string& base) {
  json targets = json::make_array();
  for (const auto& t : a.options.targets)
    targets.push_back(json(t));
  json out = json::make_object({{"peft_type", "LORA"},
                                {"task_type", "CAUSAL_LM"},
                                {"base_model_name_or_path", base},
                                {"r", a.options.rank},
                                {"lora_alpha", a.options.alpha},
                                {"lora_dropout", 0.0},
                                {"bias", "none"},
                                {"fan_in_fan_out", false},
                                {"use_rslora", false},
                                {"use_dora", false},
                                {"init_lora_weights", true},
                                {"inference_mode", true}});
  out.set("target_modules", std::move(targets));
  return out;
}

}  // namespace

std::vector<adapted_weight> adapted_weights(const model_shape& s, const adapter_options& options) {
  std::vector<adapted_weight> out;
  const std::vector<std::pair<int64_t, int64_t>> sizes = {
      {s.query_width(), s.width}, {s.kv_width(), s.width}, {s.kv_width(), s.width}, {s.width, s.query_width()},
      {s.hidden, s.width},        {s.hidden, s.width},     {s.width, s.hidden}};
  constexpr std::size_t of_attention = 4;
  for (std::size_t i = 0; i < static_cast<std::size_t>(s.layers); ++i)
    for (std::size_t t = 0; t < adapter_targets.size(); ++t) {
      if (std::ranges::count(options.targets, adapter_targets[t]) == 0) continue;
      out.push_back(
          {fmt::format("model.layers.{}.{}.{}.weight", i, t < of_attention ? "self_attn" : "mlp", adapter_targets[t]),
           i, t, sizes[t].first, sizes[t].second});
    }
  return out;
}

expected<void> check_adapter(const adapter_options& o) {
  if (o.rank < 1 || o.rank > most_rank)
    return fail(errc::invalid_argument, "an adapter has the rank {}, and should have from 1 to {}", o.rank, most_rank);
  if (!(o.alpha > 0) || !std::isfinite(o.alpha))
    return fail(errc::invalid_argument, "alpha of an adapter is {}, and should be above 0", o.alpha);
  if (o.targets.empty()) return fail(errc::invalid_argument, "an adapter needs a target, such as q_proj");
  for (const auto& t : o.targets)
    if (std::ranges::count(adapter_targets, t) == 0)
      return fail(errc::invalid_argument, "an adapter cannot change \"{}\"; there are {}", t,
                  fmt::join(adapter_targets, ", "));
  return {};
}

expected<void> check_adapter(const lora_adapter& a, const model_shape& shape) {
  CUDAL1_CHECK(check_adapter(a.options));
  const auto weights = adapted_weights(shape, a.options);
  for (const auto& [name, pair] : a.pairs) {
    const auto found = std::ranges::find(weights, name, &adapted_weight::name);
    if (found == weights.end())
      return fail(errc::invalid_argument, "the adapter changes {}, which the model does not have", name);
    if (static_cast<int64_t>(pair.a.size()) != a.options.rank * found->inputs ||
        static_cast<int64_t>(pair.b.size()) != a.options.rank * found->outputs)
      return fail(errc::invalid_argument, "the adapter is of another model: its change of {} has another size", name);
  }
  return {};
}

expected<lora_adapter> read_adapter(const std::string& folder) {
  CUDAL1_TRY(const std::string text, read_text_file(folder + "/adapter_config.json"));
  const auto config = from_text<peft_config>(text);
  if (!config) return fail_in(folder + "/adapter_config.json", config.error());
  if (auto plain = check_config(*config); !plain) return fail_in(folder, std::move(plain).error());
  lora_adapter out;
  out.options = {.rank = config->r, .alpha = config->lora_alpha, .targets = {}};
  CUDAL1_TRY(const auto file, safetensors_file::open(folder + "/adapter_model.safetensors"));
  for (const auto& [name, tensor] : file.tensors())
    if (auto read = read_tensor(name, tensor, config->r, out); !read) return fail_in(folder, std::move(read).error());
  for (const auto& [name, pair] : out.pairs)
    if (pair.a.empty() || pair.b.empty())
      return fail(errc::corrupt, "{}: of the change of {} one factor is missing", folder, name);
  if (auto fits = check_adapter(out.options); !fits) return fail_in(folder, std::move(fits).error());
  return out;
}

expected<void> write_adapter(const std::string& folder, const lora_adapter& a, const std::string& base) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) return fail(errc::io_error, "{}: {}", folder, problem.message());
  stored_tensors tensors;
  for (const auto& [name, pair] : a.pairs) {
    tensors[peft_name(name) + ".lora_A.weight"] =
        stored(pair.a, a.options.rank, static_cast<int64_t>(pair.a.size()) / a.options.rank);
    tensors[peft_name(name) + ".lora_B.weight"] =
        stored(pair.b, static_cast<int64_t>(pair.b.size()) / a.options.rank, a.options.rank);
  }
  const std::string file = folder + "/adapter_model.safetensors", made = file + ".new";
  CUDAL1_CHECK(write_safetensors(made, tensors));
  fs::rename(made, file, problem);
  if (problem) return fail(errc::io_error, "{}: {}", file, problem.message());
  return write_durably({folder + "/adapter_config.json", 0644}, config_of(a, base).text() + "\n");
}

}  // namespace cudal1
