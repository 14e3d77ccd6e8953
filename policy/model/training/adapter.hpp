// Low-rank changes of a model's weights (LoRA, arXiv 2106.09685) in the layout of PEFT: adapter_config.json and
// adapter_model.safetensors. Without LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "policy/model/model_shape.hpp"

namespace cudal1 {

// What an adapter may change, by PEFT's names: of a layer's attention and of its feed-forward part.
inline const std::vector<std::string> adapter_targets = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                         "gate_proj", "up_proj", "down_proj"};

struct adapter_options {
  int64_t rank = 16;
  double alpha = 32;  // a weight is changed by alpha / rank B A
  std::vector<std::string> targets = adapter_targets;
  double scale() const { return alpha / static_cast<double>(rank); }
};
BOOST_DESCRIBE_STRUCT(adapter_options, (), (rank, alpha, targets))

// The change of one weight, row-major.
struct low_rank_pair {
  std::vector<float> a, b;  // [rank, inputs], [outputs, rank]
};

struct lora_adapter {
  adapter_options options;
  std::map<std::string, low_rank_pair> pairs;  // by the weight's name, "model.layers.0.self_attn.q_proj.weight"
};

// The weights of a model that these targets change, in the order of its layers: name, outputs, inputs.
struct adapted_weight {
  std::string name;
  std::size_t layer = 0, target = 0;  // in adapter_targets
  int64_t outputs = 0, inputs = 0;
};
std::vector<adapted_weight> adapted_weights(const model_shape& shape, const adapter_options& options);

// errc::invalid_argument names the option that does not fit.
expected<void> check_adapter(const adapter_options& o);
// errc::invalid_argument where pairs and options are not of a model of this shape.
expected<void> check_adapter(const lora_adapter& a, const model_shape& shape);

// A folder as PEFT writes it. errc::not_found, errc::corrupt; errc::unsupported for what is no plain LoRA (DoRA,
// rank-stabilised scales, biases, ranks by pattern, modules that are saved whole).
expected<lora_adapter> read_adapter(const std::string& folder);
// In float32; makes the folder. `base`: the name or folder of the model, for PEFT. Both files are replaced at once
// each, so that a crash leaves an old one or a new one.
expected<void> write_adapter(const std::string& folder, const lora_adapter& a, const std::string& base);

}  // namespace cudal1
