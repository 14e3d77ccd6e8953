#include "policy/model/network.hpp"

#include <cmath>
#include <limits>

#include "policy/model/training/recomputation.hpp"

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

// One tensor of several, below each other; they become parts of it.
Tensor joined(std::initializer_list<Tensor*> parts) {
  std::vector<Tensor> all;
  for (const Tensor* each : parts)
    all.push_back(each->detach());
  const auto out = torch::cat(all, 0);
  int64_t at = 0;
  for (Tensor* each : parts) {
    const int64_t size = each->size(0);
    const bool learns = each->requires_grad();
    *each = out.narrow(0, at, size).detach().set_requires_grad(learns);
    at += size;
  }
  return out;
}

}  // namespace

network::network(const model_shape& shape, torch::ScalarType type)
    : shape_(shape),
      type_(type),
      frequency_(torch::tensor(frequencies_of(shape), torch::kDouble)
                     .to(type == torch::kDouble ? torch::kDouble : torch::kFloat)) {
  layers_.resize(static_cast<std::size_t>(shape.layers));
}

void network::move_to(torch::Device device) {
  for (const auto& w : named())
    *w.tensor = w.tensor->detach().to(device);
  frequency_ = frequency_.to(device);
  device_ = device;
  own_weights();
}

std::vector<network::named_weight> network::named() {
  const auto& s = shape_;
  std::vector<named_weight> out = {{"model.embed_tokens.weight", &embedding_, {s.vocabulary, s.width}}};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    auto& l = layers_[i];
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    out.push_back({prefix + "input_layernorm.weight", &l.attention_norm, {s.width}});
    out.push_back({prefix + "self_attn.q_proj.weight", &l.q, {s.query_width(), s.width}});
    out.push_back({prefix + "self_attn.k_proj.weight", &l.k, {s.kv_width(), s.width}});
    out.push_back({prefix + "self_attn.v_proj.weight", &l.v, {s.kv_width(), s.width}});
    if (s.has_qkv_bias) {
      out.push_back({prefix + "self_attn.q_proj.bias", &l.q_bias, {s.query_width()}});
      out.push_back({prefix + "self_attn.k_proj.bias", &l.k_bias, {s.kv_width()}});
      out.push_back({prefix + "self_attn.v_proj.bias", &l.v_bias, {s.kv_width()}});
    }
    if (s.has_qk_norm) {
      out.push_back({prefix + "self_attn.q_norm.weight", &l.q_norm, {s.head_size()}});
      out.push_back({prefix + "self_attn.k_norm.weight", &l.k_norm, {s.head_size()}});
    }
    out.push_back({prefix + "self_attn.o_proj.weight", &l.o, {s.width, s.query_width()}});
    out.push_back({prefix + "post_attention_layernorm.weight", &l.mlp_norm, {s.width}});
    out.push_back({prefix + "mlp.gate_proj.weight", &l.gate, {s.hidden, s.width}});
    out.push_back({prefix + "mlp.up_proj.weight", &l.up, {s.hidden, s.width}});
    out.push_back({prefix + "mlp.down_proj.weight", &l.down, {s.width, s.hidden}});
  }
  out.push_back({"model.norm.weight", &norm_, {s.width}});
  if (!s.is_tied) out.push_back({"lm_head.weight", &last_, {s.vocabulary, s.width}});
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
      *w.tensor = torch::full(w.size, w.name.ends_with(".bias") ? 0 : 1, type_);
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

// The angles are not rounded to a half type: a position of 1,000 would be one of 1,004.
network::rotation network::rotation_of(const Tensor& position) const {
  const auto angles = (position.clamp_min(0).to(frequency_.scalar_type()).unsqueeze(-1) * frequency_).unsqueeze(1);
  const auto both = torch::cat({angles, angles}, -1);
  return {(torch::cos(both) * shape_.rope_magnitude).to(type_), (torch::sin(both) * shape_.rope_magnitude).to(type_)};
}

Tensor network::projected(const layer_weights& l, projection which, const Tensor& x, const Tensor& weight,
                          const Tensor& bias) const {
  const auto y = torch::linear(x, weight, bias);
  const auto& c = l.changes[which];
  if (!applies_changes_ || !c.a.defined()) return y;
  return y + torch::linear(torch::linear(x, c.a.to(type_)), c.b.to(type_)) * change_scale_;
}

network::projections network::projections_of(const layer_weights& l, const Tensor& x, const rotation& by) const {
  const double score_scale = 1 / std::sqrt(static_cast<double>(shape_.head_size()));
  const auto h = rms_norm(x, l.attention_norm, shape_.norm_epsilon);
  const auto split = [&](projection which, const Tensor& weight, const Tensor& bias, const Tensor& norm,
                         int64_t heads) {
    const auto all = projected(l, which, h, weight, bias).view({x.size(0), x.size(1), heads, shape_.head_size()});
    return (norm.defined() ? rms_norm(all, norm, shape_.norm_epsilon) : all).transpose(1, 2);
  };
  return {rotated(split(of_q, l.q, l.q_bias, l.q_norm, shape_.heads), by) * score_scale,
          rotated(split(of_k, l.k, l.k_bias, l.k_norm, shape_.kv_heads), by),
          split(of_v, l.v, l.v_bias, {}, shape_.kv_heads)};
}

Tensor network::after_layer(const layer_weights& l, const Tensor& x, const Tensor& mixed) const {
  const auto y = x + projected(l, of_o, mixed, l.o);
  const auto m = rms_norm(y, l.mlp_norm, shape_.norm_epsilon);
  const auto gated = torch::silu(projected(l, of_gate, m, l.gate)) * projected(l, of_up, m, l.up);
  return y + projected(l, of_down, gated, l.down);
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
    x = after_layer(l, x, mixed.reshape({samples, count, shape_.query_width()}));
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
    x = after_layer(layers_[i], x, (of_prompt + of_own).reshape({samples, 1, shape_.query_width()}));
  }
  return rms_norm(x, norm_, shape_.norm_epsilon).squeeze(1);
}

// Attention is computed for each text alone: no mask is as large as the row's square.
Tensor network::layer_of_texts(const layer_weights& l, const Tensor& x, const rotation& by,
                               const std::vector<int64_t>& lengths) const {
  const auto of = projections_of(l, x, by);
  const int64_t shared = shape_.heads / shape_.kv_heads;
  const auto k = of.k.repeat_interleave(shared, 1), v = of.v.repeat_interleave(shared, 1);
  std::vector<Tensor> mixed;
  int64_t first = 0;
  for (const int64_t length : lengths) {
    mixed.push_back(at::scaled_dot_product_attention(of.q.narrow(2, first, length), k.narrow(2, first, length),
                                                     v.narrow(2, first, length), {}, 0, /*is_causal=*/true,
                                                     /*scale=*/1.0));
    first += length;
  }
  return after_layer(l, x, torch::cat(mixed, 2).transpose(1, 2).reshape({1, first, shape_.query_width()}));
}

Tensor network::hidden_of_texts(const Tensor& tokens, const std::vector<int64_t>& lengths, layers_are mode) const {
  std::vector<Tensor> positions;
  for (const int64_t length : lengths)
    positions.push_back(torch::arange(0, length, torch::TensorOptions().dtype(torch::kLong).device(device_)));
  const auto by = rotation_of(torch::cat(positions).unsqueeze(0));
  auto x = torch::embedding(embedding_, tokens.to(device_).unsqueeze(0));
  // What is recomputed has a gradient only if what it reads has one.
  if (mode == layers_are::recomputed && !x.requires_grad()) x.requires_grad_(true);
  for (const auto& l : layers_) {
    const auto work = [this, &l, by, lengths](const Tensor& of) { return layer_of_texts(l, of, by, lengths); };
    x = mode == layers_are::recomputed ? recomputed(work, x) : work(x);
  }
  return rms_norm(x, norm_, shape_.norm_epsilon).squeeze(0);
}

paged_weights network::fused() const {
  const auto plain = [](const Tensor& t) { return t.defined() ? t.detach() : t; };
  paged_weights out;
  out.shape = shape_;
  out.embedding = plain(embedding_);
  out.norm = plain(norm_);
  out.last = last_.defined() ? plain(last_) : out.embedding;
  out.frequency = frequency_;
  for (auto& l : const_cast<network*>(this)->layers_) {
    // They are parts already, unless they were replaced since.
    if (!l.qkv.defined() || !l.q.is_alias_of(l.qkv)) {
      l.qkv = joined({&l.q, &l.k, &l.v});
      if (shape_.has_qkv_bias) l.qkv_bias = joined({&l.q_bias, &l.k_bias, &l.v_bias});
      l.gate_up = joined({&l.gate, &l.up});
    }
    out.layers.push_back({plain(l.attention_norm), l.qkv, l.qkv_bias, plain(l.q_norm), plain(l.k_norm), plain(l.o),
                          plain(l.mlp_norm), l.gate_up, plain(l.down)});
  }
  return out;
}

Tensor network::log_probabilities(const network_input& read, const choices& chosen) const {
  const auto no_padding = torch::zeros({read.tokens.size(0), 1}, torch::kLong).to(device_);
  const auto states = hidden(read, no_padding, nullptr);
  const auto logits = logits_of(states.index({as_tensor(chosen.row, device_), as_tensor(chosen.before, device_)}));
  return torch::log_softmax(logits + chosen.prior.to(device_, logits.scalar_type()), -1);
}

}  // namespace cudal1
