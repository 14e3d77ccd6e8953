#include "policy/model/network.hpp"

#include <cmath>
#include <limits>

namespace cudal1 {

namespace {

using torch::Tensor;

constexpr double initial_deviation = 0.02;
constexpr double hidden_score = -1e30;  // of a key that is not visible; finite, so that a row may see none

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  return at::rms_norm(x, weight.sizes(), weight, epsilon);
}

// A value and its waves: [..., value features].
Tensor value_waves(const Tensor& values, int64_t periods) {
  constexpr double shortest = 4, usual = 16;
  std::vector<Tensor> out = {values / usual};
  for (int64_t i = 0; i < periods; ++i) {
    const auto angle = values * (2 * M_PI / (shortest * std::exp2(static_cast<double>(i))));
    out.push_back(torch::sin(angle));
    out.push_back(torch::cos(angle));
  }
  return torch::stack(out, -1);
}

}  // namespace

network::network(const model_shape& shape, torch::ScalarType type) : shape_(shape), type_(type) {
  layers_.resize(static_cast<std::size_t>(shape.layers));
}

void network::move_to(torch::Device device) {
  for (const auto& w : named())
    *w.tensor = w.tensor->detach().to(device);
  device_ = device;
  own_weights();
}

struct named_weight {
  std::string name;
  Tensor* tensor;
  std::vector<int64_t> size;
};
std::vector<network::named_weight> network::named() {
  const auto& s = shape_;
  const int64_t kv_width = s.kv_heads * s.head_size();
  std::vector<named_weight> out = {{"model.embed_tokens.weight", &embedding_, {s.vocabulary, s.width}}};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    auto& l = layers_[i];
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    out.push_back({prefix + "input_layernorm.weight", &l.attention_norm, {s.width}});
    out.push_back({prefix + "self_attn.q_proj.weight", &l.q, {s.width, s.width}});
    out.push_back({prefix + "self_attn.k_proj.weight", &l.k, {kv_width, s.width}});
    out.push_back({prefix + "self_attn.v_proj.weight", &l.v, {kv_width, s.width}});
    out.push_back({prefix + "self_attn.o_proj.weight", &l.o, {s.width, s.width}});
    out.push_back({prefix + "post_attention_layernorm.weight", &l.mlp_norm, {s.width}});
    out.push_back({prefix + "mlp.gate_proj.weight", &l.gate, {s.hidden, s.width}});
    out.push_back({prefix + "mlp.up_proj.weight", &l.up, {s.hidden, s.width}});
    out.push_back({prefix + "mlp.down_proj.weight", &l.down, {s.width, s.hidden}});
  }
  out.push_back({"model.norm.weight", &norm_, {s.width}});
  if (s.value_periods > 0) out.push_back({"model.embed_values.weight", &of_values_, {s.width, s.value_features()}});
  return out;
}

std::vector<Tensor> network::tensors() const {
  std::vector<Tensor> out;
  for (const auto& w : named())
    out.push_back(*w.tensor);
  return out;
}

void network::initialise(uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const auto& w : named()) {
    if (w.size.size() == 1) {
      *w.tensor = torch::ones(w.size, type_);
      continue;
    }
    double deviation = initial_deviation;
    // What is added to the residual stream, so that its size does not depend on the number of layers.
    if (w.name.ends_with("o_proj.weight") || w.name.ends_with("down_proj.weight"))
      deviation /= std::sqrt(2.0 * static_cast<double>(shape_.layers));
    *w.tensor = torch::normal(0, deviation, w.size, generator, torch::TensorOptions().dtype(torch::kDouble)).to(type_);
  }
  own_weights();
}

void network::own_weights() {
  for (const auto& w : named())
    w.tensor->set_requires_grad(true);
}

// The two halves of each head are the components of rotated pairs, as in Llama's checkpoints. x: [samples, heads,
// tokens, head size].
Tensor network::rotated(const Tensor& x, const rotation& by) {
  const auto halves = x.chunk(2, -1);
  return x * by.cosine + torch::cat({halves[1].neg(), halves[0]}, -1) * by.sine;
}

network::rotation network::rotation_of(const Tensor& position) const {
  const int64_t head = shape_.head_size();
  const auto frequency = torch::pow(
      shape_.rope_base, torch::arange(0, head, 2, torch::TensorOptions().dtype(type_).device(device_)) / -double(head));
  const auto angles = (position.clamp_min(0).to(type_).unsqueeze(-1) * frequency).unsqueeze(1);
  const auto both = torch::cat({angles, angles}, -1);
  return {torch::cos(both), torch::sin(both)};
}

network::projections network::projections_of(const layer_weights& l, const Tensor& x, const rotation& by) const {
  const double score_scale = 1 / std::sqrt(static_cast<double>(shape_.head_size()));
  const auto h = rms_norm(x, l.attention_norm, shape_.norm_epsilon);
  const auto split = [&](const Tensor& weight, int64_t heads) {
    return torch::linear(h, weight).view({x.size(0), x.size(1), heads, shape_.head_size()}).transpose(1, 2);
  };
  return {rotated(split(l.q, shape_.heads), by) * score_scale, rotated(split(l.k, shape_.kv_heads), by),
          split(l.v, shape_.kv_heads)};
}

Tensor network::after_layer(const layer_weights& l, const Tensor& x, const Tensor& mixed) const {
  const auto y = x + torch::linear(mixed, l.o);
  const auto m = rms_norm(y, l.mlp_norm, shape_.norm_epsilon);
  return y + torch::linear(torch::silu(torch::linear(m, l.gate)) * torch::linear(m, l.up), l.down);
}

Tensor network::hidden(const network_input& read, const Tensor& padding, std::vector<keys_and_values>* kept) const {
  const int64_t samples = read.tokens.size(0), count = read.tokens.size(1);
  const auto places = torch::arange(0, count, torch::TensorOptions().dtype(torch::kLong).device(device_));
  const auto by = rotation_of(places.unsqueeze(0) - padding);
  const auto visible = (places.view({1, 1, -1}) <= places.view({1, -1, 1}))
                           .logical_and(places.view({1, 1, -1}) >= padding.unsqueeze(-1))
                           .unsqueeze(1);
  auto x = torch::embedding(embedding_, read.tokens.to(device_));
  if (of_values_.defined()) {
    const auto values = read.values.to(device_);
    const auto given = torch::isnan(values).logical_not().unsqueeze(-1);
    const auto waves = value_waves(torch::nan_to_num(values).to(type_), shape_.value_periods);
    x = x + torch::linear(waves, of_values_) * given.to(type_);
  }
  const int64_t shared = shape_.heads / shape_.kv_heads;
  for (const auto& l : layers_) {
    const auto [q, k, v] = projections_of(l, x, by);
    if (kept != nullptr) kept->push_back({k, v});
    const auto scores = torch::matmul(q, k.repeat_interleave(shared, 1).transpose(-2, -1));
    const auto weights = torch::softmax(scores.masked_fill(visible.logical_not(), hidden_score), -1);
    const auto mixed = torch::matmul(weights, v.repeat_interleave(shared, 1)).transpose(1, 2);
    x = after_layer(l, x, mixed.reshape({samples, count, shape_.width}));
  }
  return rms_norm(x, norm_, shape_.norm_epsilon);
}

void network::make_room(sampling_cache& cache, int64_t each, int64_t most) const {
  const auto& read = cache.prompts.front().keys;
  const int64_t prompts = read.size(0), places = read.size(2);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto room = [&] {
      return torch::empty({prompts * each, shape_.kv_heads, most, shape_.head_size()}, read.options());
    };
    cache.samples.push_back({room(), room()});
    cache.prompts[i].keys = cache.prompts[i].keys.contiguous();
    cache.prompts[i].values = cache.prompts[i].values.contiguous();
  }
  const auto at = torch::arange(0, places, torch::TensorOptions().dtype(torch::kLong).device(device_));
  cache.hidden = torch::zeros({prompts, places}, read.options())
                     .masked_fill(at.unsqueeze(0) < cache.padding, hidden_score)
                     .view({prompts, 1, 1, places});
}

Tensor network::hidden_of_next(const network_input& next, sampling_cache& cache) const {
  const int64_t samples = next.tokens.size(0), prompts = cache.padding.size(0), each = samples / prompts;
  const int64_t kv = shape_.kv_heads, shared = shape_.heads / kv, head = shape_.head_size();
  const int64_t place = cache.prompts.front().keys.size(2) + cache.read++;
  const auto by = rotation_of(place - cache.padding.repeat_interleave(each, 0));
  // From the order of samples to that in which all heads of a prompt that share its keys are together, and back.
  const auto by_prompt = [&](const Tensor& x) {
    return x.reshape({prompts, each, kv, shared, -1}).transpose(1, 2).reshape({prompts, kv, each * shared, -1});
  };
  const auto by_sample = [&](const Tensor& x) {
    return x.reshape({prompts, kv, each, shared, -1}).transpose(1, 2).reshape({samples, kv, shared, -1});
  };
  auto x = torch::embedding(embedding_, next.tokens.to(device_));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto [q, k, v] = projections_of(layers_[i], x, by);
    const auto& prompt = cache.prompts[i];
    auto& own = cache.samples[i];
    own.keys.select(2, cache.read - 1).copy_(k.squeeze(2));
    own.values.select(2, cache.read - 1).copy_(v.squeeze(2));
    const auto own_keys = own.keys.narrow(2, 0, cache.read), own_values = own.values.narrow(2, 0, cache.read);
    const auto grouped = q.reshape({samples, kv, shared, head});
    const auto to_prompt = torch::matmul(by_prompt(grouped), prompt.keys.transpose(-2, -1));
    const auto to_own = torch::matmul(grouped, own_keys.transpose(-2, -1));
    const auto weights = torch::softmax(torch::cat({to_prompt + cache.hidden, by_prompt(to_own)}, -1), -1);
    const int64_t places = prompt.keys.size(2);
    const auto of_prompt = by_sample(torch::matmul(weights.narrow(3, 0, places), prompt.values));
    const auto of_own = torch::matmul(by_sample(weights.narrow(3, places, cache.read)), own_values);
    x = after_layer(layers_[i], x, (of_prompt + of_own).reshape({samples, 1, shape_.width}));
  }
  return rms_norm(x, norm_, shape_.norm_epsilon).squeeze(1);
}

Tensor network::log_probabilities(const network_input& read, const choices& chosen) const {
  const auto no_padding = torch::zeros({read.tokens.size(0), 1}, torch::kLong).to(device_);
  const auto states = hidden(read, no_padding, nullptr);
  const auto logits = logits_of(states.index({as_tensor(chosen.row, device_), as_tensor(chosen.before, device_)}));
  return torch::log_softmax(logits + chosen.prior.to(device_, logits.scalar_type()), -1);
}

}  // namespace cudal1
