#include "policy/model/training/network_trainer.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <type_traits>

#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/hash.hpp"
#include "config/base/stopwatch.hpp"
#include "config/base/text_file.hpp"
#include "policy/model/network_weights.hpp"
#include "policy/model/training/adapter_folder.hpp"
#include "policy/model/training/packed_texts.hpp"
#include "policy/model/training/policy_loss.hpp"
#include "policy/model/training/trained_parameters.hpp"
#include "sandbox/program/safetensors.hpp"

namespace cudal1 {

namespace fs = std::filesystem;
using torch::Tensor;

namespace {

constexpr int64_t most_pack_tokens = int64_t{1} << 20;
constexpr const char* state_name = "training.json";

struct training_state {
  int64_t format = 1;
  std::string of;    // the model's shape and what is trained
  std::string file;  // of parameters and moments, in the same folder
  int64_t steps = 0;
  json extra;
};
BOOST_DESCRIBE_STRUCT(training_state, (), (format, of, file, steps, extra))

expected<void> check_options(const trainer_options& o) {
  if (o.precision == model_precision::float64)
    return fail(errc::invalid_argument, "pretrained models are trained in float32 or bfloat16");
  if (o.pack_tokens < 1 || o.pack_tokens > most_pack_tokens)
    return fail(errc::invalid_argument, "rows have {} tokens, and should have from 1 to {}", o.pack_tokens,
                most_pack_tokens);
  return o.adapter ? check_adapter(*o.adapter) : expected<void>();
}

expected<void> check_policy_loss(const policy_loss_options& o) {
  if (!(o.ratio_clip > 0) || !(o.kl_weight >= 0) || !(o.entropy_weight >= 0) || !(o.most_importance >= 0) ||
      o.updates < 1)
    return fail(errc::invalid_argument,
                "the loss of a policy needs a ratio_clip above 0, weights of at least 0 and an update: there are {}, "
                "{}, {}, {} and {}",
                o.ratio_clip, o.kl_weight, o.entropy_weight, o.most_importance, o.updates);
  return {};
}

Tensor constant_like(const std::vector<double>& values, const Tensor& like) {
  return torch::tensor(values, torch::kDouble).to(like.device(), like.scalar_type());
}

// By written token of a row.
template <class Value>
Tensor by_token(const text_row& row, std::span<const text_episode> batch, const Tensor& like, const Value& value) {
  std::vector<double> all;
  for (const std::size_t i : row.texts)
    for (std::size_t k = 0; k < batch[i].written.size(); ++k)
      all.push_back(value(batch[i], k));
  return constant_like(all, like);
}

std::vector<float> floats_of(const Tensor& t) {
  const auto flat = t.detach().to(torch::kCPU, torch::kFloat).contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

class network_trainer final : public text_trainer {
 public:
  network_trainer(std::string model, const trainer_options& options, const model_shape& shape)
      : model_(std::move(model)), options_(options), net_(shape, scalar_type_of(options.precision)) {}

  expected<void> begin(std::unique_ptr<pretrained_weights> from) {
    CUDAL1_TRY(const auto device, device_of(options_.device));
    // cuDNN would plan attention anew for each length of a text, which takes longer than a step (H200: 0.13 s a
    // length).
    if (device.is_cuda()) at::globalContext().setSDPUseCuDNN(false);
    CUDAL1_CHECK(read_weights(net_, *from, device));
    source_ = std::move(from);
    for (const auto& w : net_.named()) {
      w.tensor->set_requires_grad(false);
      if (!options_.adapter) parameters_.add(w.name, *w.tensor);
    }
    if (options_.adapter) add_adapter();
    return {};
  }

  const model_shape& shape() const override { return net_.shape(); }
  const trainer_options& options() const override { return options_; }
  int64_t parameters() const override { return parameters_.elements(); }
  int64_t steps() const override { return parameters_.steps(); }

  expected<text_report> learn(std::span<const text_episode> batch, const optimizer_options& how) override {
    return without_exceptions([&]() -> expected<text_report> {
      const stopwatch watch;
      CUDAL1_CHECK(check_texts(batch, net_.shape()));
      text_report report;
      backward_supervised(batch, report);
      CUDAL1_TRY(report.gradient_norm, parameters_.step(how));
      report.seconds = watch.ms() / 1000;
      return report;
    });
  }

  expected<text_report> learn(std::span<const text_episode> batch, const policy_loss_options& loss,
                              const optimizer_options& how) override {
    return without_exceptions([&]() -> expected<text_report> {
      const stopwatch watch;
      CUDAL1_CHECK(check_policy_loss(loss));
      CUDAL1_CHECK(check_texts(batch, net_.shape()));
      const auto rows = rows_of(batch, options_.pack_tokens);
      text_report report;
      std::vector<policy_tokens> constants(rows.size());
      for (int64_t update = 0; update < loss.updates; ++update) {
        parameters_.forget_gradients();
        report = {};
        count(rows, report);
        for (std::size_t r = 0; r < rows.size(); ++r) {
          CUDAL1_CHECK(backward_policy(rows[r], batch, loss, constants[r], report));
        }
        CUDAL1_TRY(report.gradient_norm, parameters_.step(how));
      }
      report.seconds = watch.ms() / 1000;
      return report;
    });
  }

  expected<std::vector<std::vector<double>>> score(std::span<const text_episode> batch,
                                                   trained_weights which) override {
    return without_exceptions([&]() -> expected<std::vector<std::vector<double>>> {
      CUDAL1_CHECK(check_texts(batch, net_.shape()));
      std::vector<std::vector<double>> out(batch.size());
      for (const auto& row : rows_of(batch, options_.pack_tokens)) {
        Tensor log_p;
        if (which == trained_weights::reference) {
          CUDAL1_TRY(log_p, reference_log_p(row, batch));
        } else {
          const torch::NoGradGuard no_gradients;
          log_p = scores_of(net_, row, batch, network::layers_are::kept).log_p;
        }
        log_p = log_p.to(torch::kCPU, torch::kDouble).contiguous();
        const double* at = log_p.data_ptr<double>();
        for (const std::size_t i : row.texts) {
          out[i].assign(at, at + batch[i].written.size());
          at += batch[i].written.size();
        }
      }
      return out;
    });
  }

  expected<std::map<std::string, std::vector<float>>> gradient(std::span<const text_episode> batch) override {
    return without_exceptions([&]() -> expected<std::map<std::string, std::vector<float>>> {
      CUDAL1_CHECK(check_texts(batch, net_.shape()));
      text_report report;
      backward_supervised(batch, report);
      std::map<std::string, std::vector<float>> out;
      for (const auto& p : parameters_.all()) {
        const auto& g = p.read.grad();
        out[p.name] = floats_of(g.defined() ? g : torch::zeros_like(p.read));
      }
      parameters_.forget_gradients();
      return out;
    });
  }

  expected<lora_adapter> adapter() const override {
    if (!options_.adapter)
      return fail(errc::unsupported, "all weights of the model are trained: there is no adapter; save a merged folder");
    lora_adapter out{*options_.adapter, {}};
    const auto& all = parameters_.all();
    for (std::size_t i = 0; i < weights_.size(); ++i)
      out.pairs[weights_[i].name] = {floats_of(all[2 * i].master), floats_of(all[2 * i + 1].master)};
    return out;
  }

  expected<void> set_adapter(const lora_adapter& a) override {
    if (!options_.adapter || steps() > 0)
      return fail(errc::invalid_argument, "an adapter is set before the first step of a training of adapters");
    const auto& own = *options_.adapter;
    auto targets = own.targets, others = a.options.targets;
    std::ranges::sort(targets);
    std::ranges::sort(others);
    if (a.options.rank != own.rank || a.options.alpha != own.alpha || targets != others)
      return fail(errc::invalid_argument,
                  "the adapter has the rank {}, alpha {} and targets {}; trained are {}, {}, {}", a.options.rank,
                  a.options.alpha, fmt::join(others, ","), own.rank, own.alpha, fmt::join(targets, ","));
    CUDAL1_CHECK(check_adapter(a, net_.shape()));
    const torch::NoGradGuard no_gradients;
    const auto put = [](const Tensor& to, const std::vector<float>& values) {
      to.copy_(torch::from_blob(const_cast<float*>(values.data()), to.sizes(), torch::kFloat));
    };
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const auto pair = a.pairs.find(weights_[i].name);
      if (pair == a.pairs.end())
        return fail(errc::invalid_argument, "the adapter does not change {}", weights_[i].name);
      put(parameters_.all()[2 * i].master, pair->second.a);
      put(parameters_.all()[2 * i + 1].master, pair->second.b);
    }
    return {};
  }

  expected<void> save_merged(const std::string& folder) const override {
    std::error_code problem;
    if (!fs::is_directory(model_, problem))
      return fail(errc::unsupported,
                  "{} is no Hugging Face folder, whose configuration and tokenizer a merged one "
                  "would have; use the adapter beside it",
                  model_);
    fs::create_directories(folder, problem);
    if (fs::equivalent(folder, model_, problem))
      return fail(errc::invalid_argument, "{} is the folder of the model itself; name another one", folder);
    for (fs::directory_iterator entry(model_, problem), end; !problem && entry != end; entry.increment(problem)) {
      const auto& path = entry->path();
      const auto name = path.filename().string();
      if (!entry->is_regular_file() || name.find(".safetensors") != std::string::npos) continue;
      if (const auto ending = path.extension(); ending != ".json" && ending != ".jinja" && ending != ".txt") continue;
      fs::copy_file(path, fs::path(folder) / name, fs::copy_options::overwrite_existing, problem);
      if (problem) break;
    }
    if (problem) return fail(errc::io_error, "{}: {}", folder, problem.message());
    return save_weights(folder + "/model.safetensors");
  }

  expected<void> save_state(const std::string& folder, const json& extra) const override {
    std::error_code problem;
    fs::create_directories(folder, problem);
    if (problem) return fail(errc::io_error, "{}: {}", folder, problem.message());
    const training_state state{1, identity(), fmt::format("training-{}.safetensors", steps()), steps(), extra};
    const std::string made = folder + "/" + state.file + ".new";
    CUDAL1_CHECK(parameters_.save(made));
    fs::rename(made, fs::path(folder) / state.file, problem);
    if (problem) return fail(errc::io_error, "{}: {}", made, problem.message());
    CUDAL1_CHECK(sync_folder(folder));
    // Only now it is the state; the files of earlier ones are not needed any more.
    CUDAL1_CHECK(write_durably({folder + "/" + state_name, 0644}, to_json(state).text() + "\n"));
    for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end; entry.increment(problem)) {
      const auto name = entry->path().filename().string();
      std::error_code ignored;
      if (name.starts_with("training-") && name != state.file) fs::remove(entry->path(), ignored);
    }
    return {};
  }

  expected<json> load_state(const std::string& folder) override {
    const std::string path = folder + "/" + state_name;
    std::error_code problem;
    if (!fs::exists(path, problem)) return fail(errc::not_found, "there is no state of a training: {}", path);
    CUDAL1_TRY(const std::string text, read_text_file(path));
    const auto state = from_text<training_state>(text);
    if (!state) return fail_in(path, state.error());
    if (state->of != identity())
      return fail(errc::invalid_argument,
                  "{} is of a training of another model, adapter or precision; name the same as then", path);
    if (state->file.find('/') != std::string::npos) return fail(errc::corrupt, "{}: file is no name", path);
    CUDAL1_CHECK(parameters_.load(folder + "/" + state->file, state->steps));
    return state->extra;
  }

 private:
  template <class Work>
  std::invoke_result_t<Work> without_exceptions(const Work& work) {
    try {
      return work();
    } catch (const c10::OutOfMemoryError& e) {
      parameters_.forget_gradients();
      return fail(errc::out_of_memory,
                  "training on {} needs more memory: {}; let layers be recomputed, or take a "
                  "smaller batch or rows",
                  options_.device, e.what_without_backtrace());
    } catch (const c10::Error& e) {
      parameters_.forget_gradients();
      return fail(errc::infrastructure, "training on {}: {}", options_.device, e.what_without_backtrace());
    }
  }

  std::string identity() const {
    json out;
    out.set("shape", to_json(net_.shape()));
    out.set("adapter", to_json(options_.adapter));
    out.set("precision", options_.precision == model_precision::bfloat16 ? "bfloat16" : "float32");
    return sha256_hex(out.text());
  }

  // A is drawn as PEFT draws it, and B is 0: nothing is changed at first.
  void add_adapter() {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(options_.seed);
    weights_ = adapted_weights(net_.shape(), *options_.adapter);
    const int64_t rank = options_.adapter->rank;
    net_.scale_changes(options_.adapter->scale());
    for (const auto& w : weights_) {
      const double most = 1 / std::sqrt(static_cast<double>(w.inputs));
      auto a = torch::empty({rank, w.inputs}, torch::kFloat).uniform_(-most, most, generator).to(net_.device());
      auto b = torch::zeros({w.outputs, rank}, torch::TensorOptions().dtype(torch::kFloat).device(net_.device()));
      parameters_.add(w.name + ".lora_A", a);
      parameters_.add(w.name + ".lora_B", b);
      net_.set_change(w.layer, w.target, {a, b});
    }
  }

  network::layers_are mode() const {
    return options_.recompute ? network::layers_are::recomputed : network::layers_are::kept;
  }

  static void count(const std::vector<text_row>& rows, text_report& report) {
    report.rows = std::ssize(rows);
    for (const auto& row : rows) {
      report.read += row.tokens.numel();
      report.tokens += std::ssize(row.written);
    }
  }

  void backward_supervised(std::span<const text_episode> batch, text_report& report) {
    const auto rows = rows_of(batch, options_.pack_tokens);
    parameters_.forget_gradients();
    count(rows, report);
    const double share = 1 / static_cast<double>(report.tokens);
    for (const auto& row : rows) {
      const auto s = scores_of(net_, row, batch, mode());
      const auto weight = by_token(row, batch, s.log_p, [](const text_episode& e, std::size_t) { return e.weight; });
      const auto loss = -(s.log_p * weight).sum() * share;
      loss.backward();
      report.loss += loss.item<double>();
      report.entropy += s.entropy.sum().item<double>() * share;
      add_gap(row, batch, s.of_all, report, share);
    }
  }

  static void add_gap(const text_row& row, std::span<const text_episode> batch, const Tensor& of_all,
                      text_report& report, double share) {
    const auto own = of_all.detach().to(torch::kCPU, torch::kDouble).contiguous();
    const double* at = own.data_ptr<double>();
    for (const std::size_t i : row.texts) {
      for (std::size_t k = 0; k < batch[i].sampled.size(); ++k) {
        const double gap = std::abs(at[k] - batch[i].sampled[k]);
        report.sampler_gap += gap * share;
        report.sampler_most = std::max(report.sampler_most, gap);
      }
      at += batch[i].written.size();
    }
  }

  expected<Tensor> reference_log_p(const text_row& row, std::span<const text_episode> batch) {
    const torch::NoGradGuard no_gradients;
    if (options_.adapter) {
      net_.apply_changes(false);
      auto out = scores_of(net_, row, batch, network::layers_are::kept).log_p;
      net_.apply_changes(true);
      return out;
    }
    if (reference_ == nullptr) {
      auto made = std::make_unique<network>(net_.shape(), net_.type());
      CUDAL1_CHECK(read_weights(*made, *source_, net_.device()));
      reference_ = std::move(made);
    }
    return scores_of(*reference_, row, batch, network::layers_are::kept).log_p;
  }

  // `constants` are set with the first step on a batch.
  expected<void> backward_policy(const text_row& row, std::span<const text_episode> batch,
                                 const policy_loss_options& how, policy_tokens& constants, text_report& report) {
    if (!constants.before.defined() && how.kl_weight > 0) {
      CUDAL1_TRY(constants.reference, reference_log_p(row, batch));
    }
    const double share = 1 / static_cast<double>(report.tokens);
    const auto s = scores_of(net_, row, batch, mode());
    if (!constants.before.defined()) {
      constants.before = s.log_p.detach();
      constants.advantage = by_token(row, batch, s.log_p, [](const text_episode& e, std::size_t) { return e.weight; });
      if (how.most_importance > 0) {
        const auto nan = std::numeric_limits<double>::quiet_NaN();
        const auto sampled = by_token(row, batch, s.of_all, [&](const text_episode& e, std::size_t k) {
          return e.sampled.empty() ? nan : e.sampled[k];
        });
        constants.importance = torch::where(sampled.isnan(), torch::ones_like(sampled), (s.of_all - sampled).exp())
                                   .clamp_max(how.most_importance);
      }
    }
    auto terms = constants;
    terms.now = s.log_p;
    const auto losses = losses_of(terms, how);
    const auto loss = (losses.loss - how.entropy_weight * s.entropy).sum() * share;
    loss.backward();
    const auto mean = [&](const Tensor& t) { return t.to(torch::kDouble).sum().item<double>() * share; };
    report.loss += loss.item<double>();
    report.entropy += mean(s.entropy);
    report.clipped += mean(losses.is_clipped);
    if (losses.kl.defined()) report.kl += mean(losses.kl);
    if (constants.importance.defined()) report.truncated += mean(constants.importance >= how.most_importance);
    add_gap(row, batch, s.of_all, report, share);
    return {};
  }

  expected<void> save_weights(const std::string& path) const {
    std::optional<lora_adapter> changes;
    if (options_.adapter) {
      CUDAL1_TRY(changes, adapter());
    }
    stored_tensors out;
    std::deque<Tensor> kept;
    const dtype type = net_.type() == torch::kBFloat16 ? dtype::bfloat16 : dtype::float32;
    for (const auto& w : net_.named()) {
      auto value = w.tensor->detach().to(torch::kCPU);
      if (changes)
        if (const auto pair = changes->pairs.find(w.name); pair != changes->pairs.end())
          value = merged(value, pair->second, changes->options);
      kept.push_back(value.contiguous());
      out[w.name] = {type, w.size, {static_cast<const std::byte*>(kept.back().data_ptr()), kept.back().nbytes()}};
    }
    return write_safetensors(path, out);
  }

  std::string model_;
  trainer_options options_;
  network net_;
  std::unique_ptr<pretrained_weights> source_;
  std::unique_ptr<network> reference_;  // of a training of all weights; none before it is needed
  std::vector<adapted_weight> weights_;
  trained_parameters parameters_;
};

}  // namespace

expected<std::unique_ptr<text_trainer>> make_text_trainer(const std::string& model, const trainer_options& options) {
  CUDAL1_CHECK(check_options(options));
  if (is_adapter(model))
    return fail(errc::unsupported, "{} is an adapter: name its model, and merge the adapter to train on from it",
                model);
  CUDAL1_TRY(auto from, pretrained_weights::open(model));
  auto made = std::make_unique<network_trainer>(model, options, from->shape());
  try {
    CUDAL1_CHECK(made->begin(std::move(from)));
  } catch (const c10::OutOfMemoryError& e) {
    return fail(errc::out_of_memory, "{} does not fit {}: {}", model, options.device, e.what_without_backtrace());
  } catch (const c10::Error& e) {
    return fail(errc::unsupported, "{} cannot be trained on {}: {}", model, options.device, e.what_without_backtrace());
  }
  return made;
}

}  // namespace cudal1
