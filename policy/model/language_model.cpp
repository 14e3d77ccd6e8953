#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <sstream>
#include <thread>

#include <dlfcn.h>
#include <torch/torch.h>

#include "config/base/split_mix.hpp"
#include "policy/model/language_model_library.hpp"
#include "sandbox/program/safetensors.hpp"

namespace cudal1 {

namespace {

using torch::Tensor;
namespace idx = torch::indexing;

constexpr double initial_deviation = 0.02;
constexpr double hidden_score = -1e30;  // of a key that is not visible; finite, so that a row may see none

struct layer_weights {
  Tensor attention_norm, q, k, v, o, mlp_norm, gate, up, down;
};

struct keys_and_values {
  Tensor keys, values;  // [sequences, kv_heads, places, head size]
};

// What samples have read so far. The samples of a prompt share its keys and values.
struct sampling_cache {
  std::vector<keys_and_values> prompts, samples;  // by layer
  Tensor padding;                                 // places before each prompt, [prompts, 1]
  Tensor hidden;                                  // to be added to scores of a prompt's places, [prompts, 1, 1, places]
  int64_t read = 0;                               // tokens of each sample after its prompt
};

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  return at::rms_norm(x, weight.sizes(), weight, epsilon);
}

// Of the angles of rotary positions: [samples, 1, tokens, head size], each in both halves.
struct rotation {
  Tensor cosine, sine;
};

// The two halves of each head are the components of rotated pairs, as in Llama's checkpoints. x: [samples, heads,
// tokens, head size].
Tensor rotated(const Tensor& x, const rotation& by) {
  const auto halves = x.chunk(2, -1);
  return x * by.cosine + torch::cat({halves[1].neg(), halves[0]}, -1) * by.sine;
}

// The chosen tokens of a batch: where they are, and what was legal there.
struct choices {
  std::vector<int64_t> row, before, chosen;  // sequence, position of the token before it, the token
  Tensor legal;                              // bool [choices, vocabulary]
  std::vector<std::size_t> of_sequence;      // number of choices of each sequence
};

expected<void> check_sequence(const token_sequence& s, const model_shape& shape, std::size_t number) {
  const auto bad = [&](std::size_t at, const char* why) {
    return fail(errc::invalid_argument, "sequence {}, token {} ({}) {}", number, at, s.tokens[at], why);
  };
  if (s.tokens.empty() || s.legal.size() != s.tokens.size() || !s.legal.front().empty())
    return fail(errc::invalid_argument, "sequence {} should begin with a given token, and say what was legal for each",
                number);
  if (static_cast<int64_t>(s.tokens.size()) > shape.context)
    return fail(errc::invalid_argument, "sequence {} has {} tokens, and the model's context {}", number,
                s.tokens.size(), shape.context);
  if (!s.values.empty() && (s.values.size() != s.tokens.size() || shape.value_periods == 0))
    return fail(errc::invalid_argument, "sequence {} has {} values for {} tokens, and the model {} for each", number,
                s.values.size(), s.tokens.size(), shape.value_periods == 0 ? "none" : "one");
  for (std::size_t i = 0; i < s.tokens.size(); ++i) {
    if (s.tokens[i] < 0 || s.tokens[i] >= shape.vocabulary) return bad(i, "is not in the vocabulary");
    if (s.legal[i].empty()) continue;
    if (s.legal[i].front() < 0 || s.legal[i].back() >= shape.vocabulary || !std::ranges::is_sorted(s.legal[i]))
      return bad(i, "has legal tokens that do not ascend or are not in the vocabulary");
    if (!std::ranges::binary_search(s.legal[i], s.tokens[i])) return bad(i, "is not among its legal ones");
  }
  return {};
}

template <class Batch, class Sequence>
expected<choices> choices_of(const Batch& batch, const model_shape& shape, Sequence sequence_of) {
  choices out;
  std::vector<const std::vector<token>*> legal;
  for (std::size_t b = 0; b < batch.size(); ++b) {
    const token_sequence& s = sequence_of(batch[b]);
    CUDAL1_CHECK(check_sequence(s, shape, b));
    const std::size_t before = legal.size();
    for (std::size_t i = 1; i < s.tokens.size(); ++i) {
      if (s.legal[i].empty()) continue;
      out.row.push_back(static_cast<int64_t>(b));
      out.before.push_back(static_cast<int64_t>(i) - 1);
      out.chosen.push_back(s.tokens[i]);
      legal.push_back(&s.legal[i]);
    }
    out.of_sequence.push_back(legal.size() - before);
  }
  out.legal = torch::zeros({static_cast<int64_t>(legal.size()), shape.vocabulary}, torch::kBool);
  auto* marks = out.legal.data_ptr<bool>();
  for (std::size_t n = 0; n < legal.size(); ++n)
    for (const token t : *legal[n])
      marks[static_cast<int64_t>(n) * shape.vocabulary + t] = true;
  return out;
}

// What a model reads: tokens, and their values where the shape has any, as [samples, places].
struct model_input {
  Tensor tokens, values;

  model_input(std::size_t samples, std::size_t places, const model_shape& shape)
      : tokens(torch::zeros({static_cast<int64_t>(samples), static_cast<int64_t>(places)}, torch::kLong)) {
    if (shape.value_periods > 0)
      values = torch::full(tokens.sizes(), std::numeric_limits<double>::quiet_NaN(), torch::kFloat);
  }
  void set(std::size_t sample, std::size_t first, const token_sequence& s) {
    const auto row = static_cast<int64_t>(sample);
    std::ranges::copy(s.tokens, tokens[row].data_ptr<int64_t>() + first);
    if (!s.values.empty()) std::ranges::copy(s.values, values[row].data_ptr<float>() + first);
  }
};

// Right-padded; causal attention never looks at the padding.
template <class Batch, class Sequence>
model_input padded(const Batch& batch, const model_shape& shape, Sequence sequence_of) {
  std::size_t longest = 1;
  for (const auto& each : batch)
    longest = std::max(longest, sequence_of(each).tokens.size());
  model_input out(batch.size(), longest, shape);
  for (std::size_t b = 0; b < batch.size(); ++b)
    out.set(b, 0, sequence_of(batch[b]));
  return out;
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

const token_sequence& itself(const token_sequence& s) {
  return s;
}
template <class Learned>
const token_sequence& its_sequence(const Learned& l) {
  return l.sequence;
}

Tensor as_tensor(const std::vector<int64_t>& values, torch::Device device = torch::kCPU) {
  return torch::tensor(values, torch::kLong).to(device);
}

// Of the types in which weights are stored.
std::optional<torch::ScalarType> scalar_type_of(dtype t) {
  if (t == dtype::float32) return torch::kFloat;
  if (t == dtype::float16) return torch::kHalf;
  if (t == dtype::bfloat16) return torch::kBFloat16;
  return std::nullopt;
}

// LibTorch's CUDA libraries take long to load, and most programs do not need them.
expected<void> load_cuda() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return fail(errc::unsupported, "LibTorch's CUDA libraries cannot be loaded: {}", dlerror());
  if (!torch::cuda::is_available()) return fail(errc::unsupported, "LibTorch finds no GPU that it can use");
  return {};
}

class transformer final : public language_model {
 public:
  transformer(const model_shape& shape, torch::ScalarType type) : shape_(shape), type_(type) {
    layers_.resize(static_cast<std::size_t>(shape.layers));
  }

  // Tensors with the names of Llama's checkpoints, in a fixed order.
  struct named_weight {
    std::string name;
    Tensor* tensor;
    std::vector<int64_t> size;
  };
  std::vector<named_weight> named() {
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

  // To read from.
  std::vector<named_weight> named() const { return const_cast<transformer*>(this)->named(); }

  void initialise(uint64_t seed) {
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
      *w.tensor =
          torch::normal(0, deviation, w.size, generator, torch::TensorOptions().dtype(torch::kDouble)).to(type_);
    }
    own_weights();
  }

  expected<void> read(const std::string& path) {
    CUDAL1_TRY(const auto file, safetensors_file::open(path));
    for (const auto& w : named()) {
      CUDAL1_TRY(const stored_tensor* stored, file.find(w.name));
      const auto type = scalar_type_of(stored->type);
      if (!type || stored->shape != w.size)
        return fail(errc::corrupt, "{}: {} should be {}, or in a half type", path, w.name,
                    contiguous(dtype::float32, w.size).text());
      const auto read = torch::empty(w.size, *type);
      std::memcpy(read.data_ptr(), stored->bytes.data(), stored->bytes.size());
      *w.tensor = read.to(torch::kFloat);
    }
    own_weights();
    return {};
  }

  const model_shape& shape() const override { return shape_; }

  std::string device() const override { return device_.str(); }
  expected<void> use_device(const std::string& device) override {
    if (optimizer_) return fail(errc::invalid_argument, "a model that has learned stays on its device");
    try {
      const torch::Device to(device);
      if (to.is_cuda()) CUDAL1_CHECK(load_cuda());
      for (const auto& w : named())
        *w.tensor = w.tensor->detach().to(to);
      device_ = to;
    } catch (const c10::Error& e) {
      return fail(errc::unsupported, "the model cannot be on {}: {}", device, e.what_without_backtrace());
    }
    own_weights();
    return {};
  }

  expected<void> save(const std::string& path, dtype type) const override {
    const auto stored_as = scalar_type_of(type);
    if (!stored_as) return fail(errc::invalid_argument, "weights are not stored in {}", name_of(type));
    stored_tensors out;
    std::vector<Tensor> kept;
    for (const auto& w : named()) {
      kept.push_back(w.tensor->detach().to(torch::kCPU, *stored_as).contiguous());
      const auto bytes = static_cast<std::size_t>(kept.back().nbytes());
      out[w.name] = {type, w.size, {static_cast<const std::byte*>(kept.back().data_ptr()), bytes}};
    }
    return write_safetensors(path, out);
  }

  std::unique_ptr<language_model> clone() const override {
    auto out = std::make_unique<transformer>(shape_, type_);
    out->device_ = device_;
    const auto from = named(), to = out->named();
    for (std::size_t i = 0; i < from.size(); ++i)
      *to[i].tensor = from[i].tensor->detach().clone();
    out->own_weights();
    return out;
  }

  expected<std::vector<std::vector<double>>> score(std::span<const token_sequence> sequences) const override {
    const torch::NoGradGuard no_gradients;
    CUDAL1_TRY(const choices chosen, choices_of(sequences, shape_, itself));
    std::vector<std::vector<double>> out;
    if (chosen.row.empty()) {
      out.resize(sequences.size());
      return out;
    }
    const auto all = log_probabilities(padded(sequences, shape_, itself), chosen)
                         .gather(1, as_tensor(chosen.chosen, device_).unsqueeze(1))
                         .squeeze(1)
                         .to(torch::kCPU, torch::kDouble)
                         .contiguous();
    const double* at = all.data_ptr<double>();
    for (const std::size_t count : chosen.of_sequence) {
      out.emplace_back(at, at + count);
      at += count;
    }
    return out;
  }

  expected<std::vector<sampled_sequence>> sample(std::span<const token_sequence> prompts, const legal_tokens& legal,
                                                 const sampling_options& options, std::size_t each) const override {
    const torch::NoGradGuard no_gradients;
    std::vector<sampled_sequence> out(prompts.size() * each);
    if (out.empty()) return out;
    std::size_t longest = 0;
    for (std::size_t b = 0; b < out.size(); ++b) {
      auto& s = out[b].sequence;
      s = prompts[b / each];
      s.legal.assign(s.tokens.size(), {});
      if (b % each == 0) CUDAL1_CHECK(check_sequence(s, shape_, b / each));
      longest = std::max(longest, s.tokens.size());
    }
    // Left-padded, so that all samples go on at the same place.
    model_input read(prompts.size(), longest, shape_);
    std::vector<int64_t> padding;
    for (std::size_t b = 0; b < prompts.size(); ++b) {
      padding.push_back(static_cast<int64_t>(longest - prompts[b].tokens.size()));
      read.set(b, longest - prompts[b].tokens.size(), prompts[b]);
    }
    const auto many = static_cast<int64_t>(each);
    sampling_cache cache;
    cache.padding = as_tensor(padding, device_).unsqueeze(1);
    auto last = hidden(read, cache.padding, &cache.prompts).index({idx::Slice(), -1}).repeat_interleave(many, 0);
    make_room(cache, many, options.most_tokens);
    std::vector<uint64_t> random(out.size());
    for (std::size_t b = 0; b < out.size(); ++b)
      random[b] = split_mix(options.seed + split_mix_step * (b + 1));
    std::vector<bool> ended(out.size());
    for (int64_t step = 0; step < options.most_tokens; ++step) {
      CUDAL1_TRY(const auto next, choose_next(out, ended, last, legal, options, random));
      if (!next) break;
      if (step + 1 < options.most_tokens) last = hidden_of_next(*next, cache);
    }
    for (std::size_t b = 0; b < out.size(); ++b) {
      auto& s = out[b];
      if (!ended[b]) s.complete = legal(b, s.sequence.tokens).empty();
      if (!s.sequence.values.empty())
        s.sequence.values.resize(s.sequence.tokens.size(), std::numeric_limits<float>::quiet_NaN());
    }
    return out;
  }

  expected<step_report> learn(std::span<const weighted_sequence> batch, const optimizer_options& how) override {
    CUDAL1_TRY(auto made, supervised_loss(batch));
    return step(std::move(made), how);
  }
  expected<step_report> learn(std::span<const graded_sequence> batch, const grpo_options& loss,
                              const optimizer_options& how) override {
    CUDAL1_TRY(auto made, grpo_loss(batch, loss));
    return step(std::move(made), how);
  }

  void move_towards(const language_model& other, double share) override {
    const torch::NoGradGuard no_gradients;
    auto to = named();
    const auto from = dynamic_cast<const transformer&>(other).named();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i].tensor->lerp_(from[i].tensor->to(device_, type_), share);
  }

  std::string checkpoint() const override {
    torch::serialize::OutputArchive archive, optimizer;
    for (const auto& w : named())
      archive.write(w.name, w.tensor->detach().to(torch::kCPU));
    if (optimizer_) {
      optimizer_->save(optimizer);
      archive.write("optimizer", optimizer);
    }
    archive.write("has_optimizer", c10::IValue(optimizer_ != nullptr));
    std::ostringstream out;
    archive.save_to(out);
    return std::move(out).str();
  }

  expected<void> restore(const std::string& checkpoint) override {
    try {
      torch::serialize::InputArchive archive, optimizer;
      std::istringstream in(checkpoint);
      archive.load_from(in, device_);
      const torch::NoGradGuard no_gradients;
      for (const auto& w : named()) {
        Tensor read;
        archive.read(w.name, read);
        if (read.sizes() != at::IntArrayRef(w.size) || read.scalar_type() != type_)
          return fail(errc::corrupt, "the checkpoint is of another model: {} has another size or type", w.name);
        w.tensor->copy_(read);
      }
      c10::IValue has_optimizer;
      archive.read("has_optimizer", has_optimizer);
      optimizer_.reset();
      if (!has_optimizer.toBool()) return {};
      make_optimizer({});
      archive.read("optimizer", optimizer);
      optimizer_->load(optimizer);
    } catch (const c10::Error& e) {
      return fail(errc::corrupt, "the checkpoint cannot be read: {}", e.what_without_backtrace());
    }
    return {};
  }

  std::vector<double> weights() const override {
    std::vector<double> out;
    for (const auto& w : named())
      append(out, w.tensor->detach());
    return out;
  }
  void set_weights(std::span<const double> values) override {
    const torch::NoGradGuard no_gradients;
    for (const auto& w : named()) {
      const auto count = static_cast<std::size_t>(w.tensor->numel());
      const auto part = values.first(count);
      w.tensor->copy_(torch::from_blob(const_cast<double*>(part.data()), w.size, torch::kDouble));
      values = values.subspan(count);
    }
  }
  expected<std::vector<double>> gradient(std::span<const weighted_sequence> batch) override {
    CUDAL1_TRY(const auto made, supervised_loss(batch));
    return gradient_of(made.loss);
  }
  expected<std::vector<double>> gradient(std::span<const graded_sequence> batch, const grpo_options& loss) override {
    CUDAL1_TRY(const auto made, grpo_loss(batch, loss));
    return gradient_of(made.loss);
  }

 private:
  struct loss_of_batch {
    Tensor loss;
    step_report report;
  };

  void own_weights() {
    for (const auto& w : named())
      w.tensor->set_requires_grad(true);
  }

  std::vector<Tensor> tensors() const {
    std::vector<Tensor> out;
    for (const auto& w : named())
      out.push_back(*w.tensor);
    return out;
  }

  static void append(std::vector<double>& out, const Tensor& t) {
    const auto flat = t.to(torch::kCPU, torch::kDouble).contiguous();
    out.insert(out.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  }

  // Of positions, [samples, tokens].
  rotation rotation_of(const Tensor& position) const {
    const int64_t head = shape_.head_size();
    const auto frequency =
        torch::pow(shape_.rope_base,
                   torch::arange(0, head, 2, torch::TensorOptions().dtype(type_).device(device_)) / -double(head));
    const auto angles = (position.clamp_min(0).to(type_).unsqueeze(-1) * frequency).unsqueeze(1);
    const auto both = torch::cat({angles, angles}, -1);
    return {torch::cos(both), torch::sin(both)};
  }

  struct projections {
    Tensor q, k, v;  // [samples, heads, tokens, head size]; q is scaled
  };
  projections projections_of(const layer_weights& l, const Tensor& x, const rotation& by) const {
    const auto h = rms_norm(x, l.attention_norm, shape_.norm_epsilon);
    const auto split = [&](const Tensor& weight, int64_t heads) {
      return torch::linear(h, weight).view({x.size(0), x.size(1), heads, shape_.head_size()}).transpose(1, 2);
    };
    return {rotated(split(l.q, shape_.heads), by) * score_scale(), rotated(split(l.k, shape_.kv_heads), by),
            split(l.v, shape_.kv_heads)};
  }

  // The residual stream after a layer, from what its attention made: [samples, tokens, width].
  Tensor after_layer(const layer_weights& l, const Tensor& x, const Tensor& mixed) const {
    const auto y = x + torch::linear(mixed, l.o);
    const auto m = rms_norm(y, l.mlp_norm, shape_.norm_epsilon);
    return y + torch::linear(torch::silu(torch::linear(m, l.gate)) * torch::linear(m, l.up), l.down);
  }

  // The residual stream after the last norm: [samples, tokens, width]. `padding`: how many places at the beginning of
  // each sample are padding, [samples, 1]. Keys and values are added to `kept`, if there is one.
  Tensor hidden(const model_input& read, const Tensor& padding, std::vector<keys_and_values>* kept) const {
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

  double score_scale() const { return 1 / std::sqrt(static_cast<double>(shape_.head_size())); }

  // For `each` samples of each prompt that was read, and `most` tokens of each.
  void make_room(sampling_cache& cache, int64_t each, int64_t most) const {
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

  // As hidden(), of one further token of each sample: [samples, width].
  Tensor hidden_of_next(const model_input& next, sampling_cache& cache) const {
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

  Tensor logits_of(const Tensor& states) const { return torch::linear(states, embedding_); }

  // Of every token among the legal ones in the place of each chosen one: [choices, vocabulary]; -inf where illegal.
  Tensor log_probabilities(const model_input& read, const choices& chosen) const {
    const auto no_padding = torch::zeros({read.tokens.size(0), 1}, torch::kLong).to(device_);
    const auto states = hidden(read, no_padding, nullptr);
    const auto logits = logits_of(states.index({as_tensor(chosen.row, device_), as_tensor(chosen.before, device_)}));
    return torch::log_softmax(
        logits.masked_fill(chosen.legal.to(device_).logical_not(), -std::numeric_limits<double>::infinity()), -1);
  }

  // The next token of each sample that has not ended, and all of them as the model's next input; nothing if all ended.
  expected<std::optional<model_input>> choose_next(std::vector<sampled_sequence>& out, std::vector<bool>& ended,
                                                   const Tensor& last, const legal_tokens& legal,
                                                   const sampling_options& options,
                                                   std::vector<uint64_t>& random) const {
    const auto logits = logits_of(last).to(torch::kCPU, torch::kDouble).contiguous();
    model_input next(out.size(), 1, shape_);
    bool any = false;
    for (std::size_t b = 0; b < out.size(); ++b) {
      if (ended[b]) continue;
      auto& s = out[b];
      const auto allowed = legal(b, s.sequence.tokens);
      if (allowed.empty() || static_cast<int64_t>(s.sequence.tokens.size()) >= shape_.context) {
        ended[b] = true;
        s.complete = allowed.empty();
        continue;
      }
      const auto row = static_cast<int64_t>(b);
      CUDAL1_CHECK(choose(s, allowed, logits[row], options, random[b]));
      next.tokens[row][0] = static_cast<int64_t>(s.sequence.tokens.back());
      any = true;
    }
    if (!any) return std::nullopt;
    return next;
  }

  static expected<void> choose(sampled_sequence& s, const std::vector<token>& allowed, const Tensor& logits,
                               const sampling_options& options, uint64_t& random) {
    const double* of_all = logits.data_ptr<double>();
    std::vector<double> of_legal;
    for (const token t : allowed) {
      if (t < 0 || t >= logits.numel())
        return fail(errc::invalid_argument, "the legal token {} is not in the vocabulary", t);
      of_legal.push_back(of_all[t]);
    }
    const double most = *std::ranges::max_element(of_legal);
    double sum = 0;
    for (const double each : of_legal)
      sum += std::exp(each - most);
    // By descending probability, of which the first ones are drawn from.
    std::vector<std::size_t> order(allowed.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return of_legal[i]; });
    std::size_t at = order.front();
    if (options.temperature > 0) {
      std::vector<double> mass;
      double all = 0, kept = 0;
      for (const std::size_t i : order)
        mass.push_back(std::exp((of_legal[i] - most) / options.temperature)), all += mass.back();
      std::size_t count = 0;
      while (count < mass.size() && (count == 0 || kept < options.top_p * all))
        kept += mass[count++];
      random = split_mix(random + split_mix_step);
      double left = static_cast<double>(random >> 11) * 0x1p-53 * kept;
      std::size_t drawn = 0;
      while (drawn + 1 < count && left >= mass[drawn])
        left -= mass[drawn++];
      at = order[drawn];
    }
    s.sequence.tokens.push_back(allowed[at]);
    s.sequence.legal.push_back(allowed.size() > 1 ? allowed : std::vector<token>());
    if (allowed.size() > 1) s.log_probability.push_back(of_legal[at] - most - std::log(sum));
    return {};
  }

  expected<loss_of_batch> supervised_loss(std::span<const weighted_sequence> batch) const {
    CUDAL1_TRY(const choices chosen, choices_of(batch, shape_, its_sequence<weighted_sequence>));
    if (chosen.row.empty()) return fail(errc::invalid_argument, "there is nothing to learn in this batch");
    std::vector<double> weights;
    for (std::size_t b = 0; b < batch.size(); ++b)
      weights.insert(weights.end(), chosen.of_sequence[b], batch[b].weight);
    const auto all = log_probabilities(padded(batch, shape_, its_sequence<weighted_sequence>), chosen);
    const auto now = all.gather(1, as_tensor(chosen.chosen, device_).unsqueeze(1)).squeeze(1);
    loss_of_batch out;
    out.loss = -(now * torch::tensor(weights, torch::kDouble).to(device_, type_)).mean();
    out.report.entropy = entropy_of(all).item<double>();
    out.report.tokens = static_cast<int64_t>(weights.size());
    return out;
  }

  static Tensor entropy_of(const Tensor& log_probabilities) {
    const auto p = log_probabilities.exp();
    return -(p * log_probabilities.masked_fill(p == 0, 0)).sum(-1).mean();
  }

  expected<loss_of_batch> grpo_loss(std::span<const graded_sequence> batch, const grpo_options& how) const {
    CUDAL1_TRY(const choices chosen, choices_of(batch, shape_, its_sequence<graded_sequence>));
    if (chosen.row.empty()) return fail(errc::invalid_argument, "there is nothing to learn in this batch");
    std::vector<double> advantages, sampled, reference;
    for (std::size_t b = 0; b < batch.size(); ++b) {
      const auto& g = batch[b];
      if (g.sampled.size() != chosen.of_sequence[b] || g.reference.size() != chosen.of_sequence[b])
        return fail(errc::invalid_argument,
                    "sequence {} has {} chosen tokens, and other numbers of their probabilities", b,
                    chosen.of_sequence[b]);
      advantages.insert(advantages.end(), chosen.of_sequence[b], g.advantage);
      sampled.insert(sampled.end(), g.sampled.begin(), g.sampled.end());
      reference.insert(reference.end(), g.reference.begin(), g.reference.end());
    }
    const auto constant = [&](const std::vector<double>& values) {
      return torch::tensor(values, torch::kDouble).to(device_, type_);
    };
    const auto all = log_probabilities(padded(batch, shape_, its_sequence<graded_sequence>), chosen);
    const auto now = all.gather(1, as_tensor(chosen.chosen, device_).unsqueeze(1)).squeeze(1);
    const auto advantage = constant(advantages), ratio = (now - constant(sampled)).exp();
    const auto clipped = ratio.clamp(1 - how.ratio_clip, 1 + how.ratio_clip);
    const auto gain = torch::minimum(ratio * advantage, clipped * advantage);
    const auto ahead = constant(reference) - now;
    const auto kl = ahead.exp() - ahead - 1;
    const auto entropy = entropy_of(all);
    loss_of_batch out;
    out.loss = (how.kl_weight * kl - gain).mean() - how.entropy_weight * entropy;
    out.report.kl = kl.mean().item<double>();
    out.report.entropy = entropy.item<double>();
    out.report.clipped = (ratio != clipped).to(torch::kDouble).mean().item<double>();
    out.report.tokens = static_cast<int64_t>(advantages.size());
    return out;
  }

  std::vector<double> gradient_of(const Tensor& loss) const {
    std::vector<double> out;
    for (const auto& g : torch::autograd::grad({loss}, tensors()))
      append(out, g);
    return out;
  }

  void make_optimizer(const optimizer_options& how) {
    if (!optimizer_) optimizer_ = std::make_unique<torch::optim::AdamW>(tensors(), torch::optim::AdamWOptions());
    auto& set = static_cast<torch::optim::AdamWOptions&>(optimizer_->param_groups().front().options());
    set.lr(how.rate).weight_decay(how.weight_decay).betas({how.beta1, how.beta2}).eps(how.epsilon);
  }

  expected<step_report> step(loss_of_batch made, const optimizer_options& how) {
    made.report.loss = made.loss.item<double>();
    if (!std::isfinite(made.report.loss)) return fail(errc::invalid_argument, "the loss of this batch is not finite");
    make_optimizer(how);
    optimizer_->zero_grad();
    made.loss.backward();
    const double limit = how.gradient_clip > 0 ? how.gradient_clip : std::numeric_limits<double>::infinity();
    made.report.gradient_norm = torch::nn::utils::clip_grad_norm_(tensors(), limit);
    optimizer_->step();
    return made.report;
  }

  model_shape shape_;
  torch::ScalarType type_;
  torch::Device device_ = torch::kCPU;
  Tensor embedding_, norm_, of_values_;  // of_values_: none where tokens have no values
  std::vector<layer_weights> layers_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;  // none before the first step
};

expected<std::unique_ptr<language_model>> make_model(const model_shape& shape, uint64_t seed,
                                                     model_precision precision) {
  CUDAL1_CHECK(check_shape(shape));
  auto made =
      std::make_unique<transformer>(shape, precision == model_precision::float64 ? torch::kDouble : torch::kFloat);
  made->initialise(seed);
  return made;
}

expected<std::unique_ptr<language_model>> load_model(const model_shape& shape, const std::string& path) {
  CUDAL1_CHECK(check_shape(shape));
  auto made = std::make_unique<transformer>(shape, torch::kFloat);
  CUDAL1_CHECK(made->read(path));
  return made;
}

void use_model_threads(int count) {
  at::set_num_threads(count > 0 ? count : static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const language_model_library cudal1_language_model_library;
const language_model_library cudal1_language_model_library = {make_model, load_model, use_model_threads};

}  // namespace cudal1
