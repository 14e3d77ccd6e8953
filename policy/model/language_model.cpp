#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <sstream>
#include <type_traits>

#include "config/base/thread_cores.hpp"
#include "policy/model/generator.hpp"
#include "policy/model/language_model_library.hpp"
#include "policy/model/network_weights.hpp"
#include "policy/model/sampler.hpp"
#include "policy/model/training/adapter_folder.hpp"
#include "policy/model/training/network_trainer.hpp"
#include "policy/model/training/policy_loss.hpp"
#include "sandbox/program/safetensors.hpp"

namespace cudal1 {

namespace {

using torch::Tensor;

// The sequences of a batch, of whatever else each has.
template <class Batch>
std::vector<const token_sequence*> sequences_of(const Batch& batch) {
  std::vector<const token_sequence*> out;
  for (const auto& each : batch) {
    if constexpr (std::is_same_v<typename Batch::value_type, token_sequence>)
      out.push_back(&each);
    else
      out.push_back(&each.sequence);
  }
  return out;
}

// Of the types in which weights are stored.
std::optional<torch::ScalarType> scalar_type_of(dtype t) {
  if (t == dtype::float32) return torch::kFloat;
  if (t == dtype::float16) return torch::kHalf;
  if (t == dtype::bfloat16) return torch::kBFloat16;
  return std::nullopt;
}

class transformer final : public language_model {
 public:
  transformer(const model_shape& shape, torch::ScalarType type) : net_(shape, type) {}

  void initialise(uint64_t seed) { net_.initialise(seed); }

  expected<void> read(const std::string& path) {
    CUDAL1_TRY(const auto file, safetensors_file::open(path));
    for (const auto& w : net_.named()) {
      CUDAL1_TRY(const stored_tensor* stored, file.find(w.name));
      const auto type = scalar_type_of(stored->type);
      if (!type || stored->shape != w.size)
        return fail(errc::corrupt, "{}: {} should be {}, or in a half type", path, w.name,
                    contiguous(dtype::float32, w.size).text());
      const auto read = torch::empty(w.size, *type);
      std::memcpy(read.data_ptr(), stored->bytes.data(), stored->bytes.size());
      *w.tensor = read.to(torch::kFloat);
    }
    net_.own_weights();
    return {};
  }

  // The weights are read again when an adapter is used.
  expected<void> read(std::unique_ptr<pretrained_weights> from, torch::Device device) {
    CUDAL1_CHECK(read_weights(net_, *from, device));
    (void)net_.fused();
    source_ = std::move(from);
    return {};
  }

  const model_shape& shape() const override { return net_.shape(); }

  std::string device() const override { return net_.device().str(); }
  expected<void> use_device(const std::string& device) override {
    if (optimizer_) return fail(errc::invalid_argument, "a model that has learned stays on its device");
    CUDAL1_TRY(const auto to, device_of(device));
    engine_.reset();
    try {
      net_.move_to(to);
    } catch (const c10::Error& e) {
      return fail(errc::unsupported, "the model cannot be on {}: {}", device, e.what_without_backtrace());
    }
    return {};
  }

  expected<void> save(const std::string& path, dtype type) const override {
    const auto stored_as = scalar_type_of(type);
    if (!stored_as) return fail(errc::invalid_argument, "weights are not stored in {}", name_of(type));
    stored_tensors out;
    std::vector<Tensor> kept;
    for (const auto& w : net_.named()) {
      kept.push_back(w.tensor->detach().to(torch::kCPU, *stored_as).contiguous());
      const auto bytes = static_cast<std::size_t>(kept.back().nbytes());
      out[w.name] = {type, w.size, {static_cast<const std::byte*>(kept.back().data_ptr()), bytes}};
    }
    return write_safetensors(path, out);
  }

  std::unique_ptr<language_model> clone() const override {
    auto out = std::make_unique<transformer>(net_.shape(), net_.type());
    out->net_ = net_;
    for (const auto& w : out->net_.named())
      *w.tensor = w.tensor->detach().clone();
    out->net_.own_weights();
    return out;
  }

  expected<std::vector<std::vector<double>>> score(std::span<const token_sequence> sequences) const override {
    const torch::NoGradGuard no_gradients;
    const auto read = sequences_of(sequences);
    CUDAL1_TRY(const choices chosen, choices_of(read, net_.shape()));
    std::vector<std::vector<double>> out;
    if (chosen.row.empty()) {
      out.resize(sequences.size());
      return out;
    }
    const auto all = net_.log_probabilities(padded(read, net_.shape()), chosen)
                         .gather(1, as_tensor(chosen.chosen, net_.device()).unsqueeze(1))
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

  expected<std::vector<sampled_sequence>> sample(std::span<const token_sequence> prompts, const token_grammar& legal,
                                                 const sampling_options& options, std::size_t each) const override {
    return sample_from(net_, prompts, legal, options, each);
  }

  expected<std::vector<float>> logits(std::span<const token> tokens) const override {
    CUDAL1_TRY(const auto all, logits_of_text(net_, tokens));
    const auto flat = all.to(torch::kCPU, torch::kFloat).contiguous();
    return std::vector<float>(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }

  expected<std::unique_ptr<text_engine>> make_engine(const engine_options& options) const override {
    const torch::NoGradGuard no_gradients;
    try {
      return engine_of(net_, options);
    } catch (const c10::OutOfMemoryError& e) {
      return fail(errc::out_of_memory, "a cache of {} MB for keys and values does not fit {}: {}",
                  options.cache_bytes / 1'000'000, net_.device().str(), e.what_without_backtrace());
    } catch (const c10::Error& e) {
      return fail(errc::infrastructure, "generating on {}: {}", net_.device().str(), e.what_without_backtrace());
    }
  }

  void set_engine_options(const engine_options& options) override {
    engine_options_ = options;
    engine_.reset();
  }

  expected<generation> generate(std::span<const std::vector<token>> prompts, const generation_options& options,
                                std::size_t each, const token_listener& listener) const override {
    if (!engine_) {
      CUDAL1_TRY(engine_, make_engine(engine_options_));
    }
    return generate_by(*engine_, prompts, options, each, listener);
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

  expected<void> use_adapter(const lora_adapter& a) override {
    if (source_ == nullptr)
      return fail(errc::invalid_argument,
                  "an adapter changes a pretrained model, and this one was not read from files");
    CUDAL1_CHECK(check_adapter(a, net_.shape()));
    const torch::NoGradGuard no_gradients;
    std::vector<std::string> changed;
    for (const auto& w : net_.named()) {
      const auto pair = a.pairs.find(w.name);
      if (pair == a.pairs.end() && std::ranges::count(adapted_, w.name) == 0) continue;
      CUDAL1_TRY(auto base, read_weight(*source_, w.name, w.size, net_.type()));
      if (pair != a.pairs.end()) {
        base = merged(base, pair->second, a.options);
        changed.push_back(w.name);
      }
      w.tensor->copy_(base);
    }
    adapted_ = std::move(changed);
    weights_changed();
    return {};
  }

  void move_towards(const language_model& other, double share) override {
    const torch::NoGradGuard no_gradients;
    auto to = net_.named();
    const auto from = dynamic_cast<const transformer&>(other).net_.named();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i].tensor->lerp_(from[i].tensor->to(net_.device(), net_.type()), share);
    weights_changed();
  }

  std::string checkpoint() const override {
    torch::serialize::OutputArchive archive, optimizer;
    for (const auto& w : net_.named())
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
      archive.load_from(in, net_.device());
      const torch::NoGradGuard no_gradients;
      weights_changed();
      for (const auto& w : net_.named()) {
        Tensor read;
        archive.read(w.name, read);
        if (read.sizes() != at::IntArrayRef(w.size) || read.scalar_type() != net_.type())
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
    for (const auto& w : net_.named())
      append(out, w.tensor->detach());
    return out;
  }
  void set_weights(std::span<const double> values) override {
    const torch::NoGradGuard no_gradients;
    for (const auto& w : net_.named()) {
      const auto count = static_cast<std::size_t>(w.tensor->numel());
      const auto part = values.first(count);
      w.tensor->copy_(torch::from_blob(const_cast<double*>(part.data()), w.size, torch::kDouble));
      values = values.subspan(count);
    }
    weights_changed();
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

  static void append(std::vector<double>& out, const Tensor& t) {
    const auto flat = t.to(torch::kCPU, torch::kDouble).contiguous();
    out.insert(out.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  }

  expected<loss_of_batch> supervised_loss(std::span<const weighted_sequence> batch) const {
    const auto read = sequences_of(batch);
    CUDAL1_TRY(const choices chosen, choices_of(read, net_.shape()));
    if (chosen.row.empty()) return fail(errc::invalid_argument, "there is nothing to learn in this batch");
    std::vector<double> weights;
    for (std::size_t b = 0; b < batch.size(); ++b)
      weights.insert(weights.end(), chosen.of_sequence[b], batch[b].weight);
    const auto all = net_.log_probabilities(padded(read, net_.shape()), chosen);
    const auto now = all.gather(1, as_tensor(chosen.chosen, net_.device()).unsqueeze(1)).squeeze(1);
    loss_of_batch out;
    out.loss = -(now * torch::tensor(weights, torch::kDouble).to(net_.device(), net_.type())).mean();
    out.report.entropy = entropy_of(all).item<double>();
    out.report.tokens = static_cast<int64_t>(weights.size());
    return out;
  }

  static Tensor entropy_of(const Tensor& log_probabilities) {
    const auto p = log_probabilities.exp();
    return -(p * log_probabilities.masked_fill(p == 0, 0)).sum(-1).mean();
  }

  expected<loss_of_batch> grpo_loss(std::span<const graded_sequence> batch, const grpo_options& how) const {
    const auto read = sequences_of(batch);
    CUDAL1_TRY(const choices chosen, choices_of(read, net_.shape()));
    if (chosen.row.empty()) return fail(errc::invalid_argument, "there is nothing to learn in this batch");
    std::vector<double> advantages, sampled, reference;
    for (std::size_t b = 0; b < batch.size(); ++b) {
      const auto& g = batch[b];
      if (g.sampled.size() != chosen.of_sequence[b] || g.reference.size() != chosen.of_sequence[b])
        return fail(errc::invalid_argument, "sequence {} has {} chosen tokens, and another number of probabilities", b,
                    chosen.of_sequence[b]);
      advantages.insert(advantages.end(), chosen.of_sequence[b], g.advantage);
      sampled.insert(sampled.end(), g.sampled.begin(), g.sampled.end());
      reference.insert(reference.end(), g.reference.begin(), g.reference.end());
    }
    const auto constant = [&](const std::vector<double>& values) {
      return torch::tensor(values, torch::kDouble).to(net_.device(), net_.type());
    };
    const auto all = net_.log_probabilities(padded(read, net_.shape()), chosen);
    const auto now = all.gather(1, as_tensor(chosen.chosen, net_.device()).unsqueeze(1)).squeeze(1);
    const auto tokens = losses_of({.now = now,
                                   .before = constant(sampled),
                                   .advantage = constant(advantages),
                                   .reference = constant(reference),
                                   .importance = {}},
                                  how);
    const auto entropy = entropy_of(all);
    loss_of_batch out;
    out.loss = tokens.loss.mean() - how.entropy_weight * entropy;
    out.report.kl = tokens.kl.mean().item<double>();
    out.report.entropy = entropy.item<double>();
    out.report.clipped = tokens.is_clipped.to(torch::kDouble).mean().item<double>();
    out.report.tokens = static_cast<int64_t>(advantages.size());
    return out;
  }

  std::vector<double> gradient_of(const Tensor& loss) const {
    std::vector<double> out;
    for (const auto& g : torch::autograd::grad({loss}, net_.tensors()))
      append(out, g);
    return out;
  }

  void make_optimizer(const optimizer_options& how) {
    if (!optimizer_) optimizer_ = std::make_unique<torch::optim::AdamW>(net_.tensors(), torch::optim::AdamWOptions());
    auto& set = static_cast<torch::optim::AdamWOptions&>(optimizer_->param_groups().front().options());
    set.lr(how.rate).weight_decay(how.weight_decay).betas({how.beta1, how.beta2}).eps(how.epsilon);
  }

  // Keys and values that the engine keeps are of the old ones.
  void weights_changed() {
    if (engine_) engine_->forget_texts();
  }

  expected<step_report> step(loss_of_batch made, const optimizer_options& how) {
    made.report.loss = made.loss.item<double>();
    if (!std::isfinite(made.report.loss)) return fail(errc::invalid_argument, "the loss of this batch is not finite");
    make_optimizer(how);
    optimizer_->zero_grad();
    made.loss.backward();
    const double limit = how.gradient_clip > 0 ? how.gradient_clip : std::numeric_limits<double>::infinity();
    made.report.gradient_norm = torch::nn::utils::clip_grad_norm_(net_.tensors(), limit);
    optimizer_->step();
    weights_changed();
    return made.report;
  }

  network net_;
  std::unique_ptr<pretrained_weights> source_;      // none of one that was not opened
  std::vector<std::string> adapted_;                // weights that an adapter has changed
  std::unique_ptr<torch::optim::AdamW> optimizer_;  // none before the first step
  engine_options engine_options_;
  mutable std::unique_ptr<text_engine> engine_;  // of generate(); none before its first call
};

expected<std::unique_ptr<language_model>> make_model(const model_shape& shape, uint64_t seed,
                                                     model_precision precision) {
  CUDAL1_CHECK(check_shape(shape));
  auto made = std::make_unique<transformer>(shape, scalar_type_of(precision));
  made->initialise(seed);
  return made;
}

expected<std::unique_ptr<language_model>> load_model(const model_shape& shape, const std::string& path) {
  CUDAL1_CHECK(check_shape(shape));
  auto made = std::make_unique<transformer>(shape, torch::kFloat);
  CUDAL1_CHECK(made->read(path));
  return made;
}

expected<std::unique_ptr<language_model>> open_model(const std::string& path, model_precision precision,
                                                     const std::string& device) {
  if (is_adapter(path)) {
    CUDAL1_TRY(const auto base, base_of_adapter(path));
    CUDAL1_TRY(const auto adapter, read_adapter(path));
    CUDAL1_TRY(auto model, open_model(base, precision, device));
    if (auto used = model->use_adapter(adapter); !used) return fail_in(path, std::move(used).error());
    return model;
  }
  if (precision == model_precision::float64)
    return fail(errc::invalid_argument, "pretrained models are read as float32 or bfloat16");
  CUDAL1_TRY(auto from, pretrained_weights::open(path));
  auto made = std::make_unique<transformer>(from->shape(), scalar_type_of(precision));
  CUDAL1_TRY(const auto to, device_of(device));
  try {
    CUDAL1_CHECK(made->read(std::move(from), to));
  } catch (const c10::OutOfMemoryError& e) {
    return fail(errc::out_of_memory, "{} does not fit {}: {}", path, device, e.what_without_backtrace());
  } catch (const c10::Error& e) {
    return fail(errc::unsupported, "{} cannot be on {}: {}", path, device, e.what_without_backtrace());
  }
  return made;
}

void use_model_threads(int count) {
  at::set_num_threads(count > 0 ? count : std::max(1, static_cast<int>(cores_of_this_thread().size())));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const language_model_library cudal1_language_model_library;
const language_model_library cudal1_language_model_library = {make_model, load_model, open_model, use_model_threads,
                                                              make_text_trainer};

}  // namespace cudal1
