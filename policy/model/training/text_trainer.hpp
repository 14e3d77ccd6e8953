// Trains a pretrained model on text: all its weights, or an adapter (LoRA) beside them that stay as they are.
//
// Sequences are packed: several beside each other in one row, each of which sees itself alone. Layers may be computed
// again for their gradients in place of being kept. Weights in bfloat16 are trained in float32: the optimiser has
// masters of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/json.hpp"
#include "policy/model/language_model.hpp"
#include "policy/model/training/adapter.hpp"

namespace cudal1 {

struct trainer_options {
  std::optional<adapter_options> adapter = adapter_options{};  // none: all weights are trained
  model_precision precision = model_precision::float32;        // of the model's weights; masters are float32
  std::string device = "cpu";
  bool recompute = false;      // layers are computed twice, and little is kept for their gradients
  int64_t pack_tokens = 2048;  // in a row, unless one sequence is longer; rows are computed one after the other
  uint64_t seed = 1;           // of an adapter's first weights
};

// A text with what the model wrote of it. A dialogue has several parts that were written; it is one sequence.
struct text_episode {
  std::vector<token> tokens;
  std::vector<int64_t> written;  // places of the model's own tokens, ascending, from 1 on
  double weight = 1;             // of its tokens in the supervised loss; the advantage in that of a policy
  // Of each written token by the sampler, among all tokens at temperature 1. Empty: it was sampled as it is trained.
  std::vector<double> sampled = {};
  // For each written token the bits of those that were allowed in its place (token_constraint); none, or no bits: all.
  std::vector<std::vector<uint32_t>> allowed = {};
};

struct policy_loss_options : grpo_options {
  // Where sampler and trainer differ (other kernels, older weights), a token's loss has the weight p / p of the
  // sampler, but at most this much (truncated importance sampling). 0: none has a weight.
  double most_importance = 2;
  int64_t updates = 1;  // steps on one batch; ratios are to the model before the first
};

// Means over the written tokens.
struct text_report {
  double loss = 0;
  double kl = 0, entropy = 0;
  double clipped = 0;        // share of tokens whose ratio was
  double sampler_gap = 0;    // mean of |log p of the trainer - log p of the sampler|
  double sampler_most = 0;   // the largest such difference
  double truncated = 0;      // share of tokens whose importance was
  double gradient_norm = 0;  // before it was clipped
  int64_t tokens = 0;        // written
  int64_t read = 0;          // with those of the prompts
  int64_t rows = 0;          // packed
  double seconds = 0;
};
BOOST_DESCRIBE_STRUCT(text_report, (),
                      (loss, kl, entropy, clipped, sampler_gap, sampler_most, truncated, gradient_norm, tokens, read,
                       rows, seconds))

enum class trained_weights { now, reference };  // reference: before any training

class text_trainer {
 public:
  // Errors of language_model::open, check_adapter; errc::invalid_argument for an option that does not fit.
  static expected<std::unique_ptr<text_trainer>> open(const std::string& model, const trainer_options& options);
  virtual ~text_trainer() = default;

  virtual const model_shape& shape() const = 0;
  virtual const trainer_options& options() const = 0;
  virtual int64_t parameters() const = 0;  // that are trained
  virtual int64_t steps() const = 0;       // of the optimiser so far

  // One step of AdamW on the mean over the written tokens of -weight log p. errc::invalid_argument names the sequence
  // that is longer than the context or malformed, or says that there is nothing to learn; errc::out_of_memory.
  virtual expected<text_report> learn(std::span<const text_episode> batch, const optimizer_options& how) = 0;
  // As many steps as `loss` says, on graded_sequence's loss with `weight` as the advantage. The reference is the model
  // without its adapter, or as it was opened.
  virtual expected<text_report> learn(std::span<const text_episode> batch, const policy_loss_options& loss,
                                      const optimizer_options& how) = 0;
  // Log probabilities of the written tokens among the allowed ones.
  virtual expected<std::vector<std::vector<double>>> score(std::span<const text_episode> batch,
                                                           trained_weights which = trained_weights::now) = 0;
  // The gradient of the supervised loss by name of weight (of adapters with PEFT's endings .lora_A and .lora_B),
  // without a step.
  virtual expected<std::map<std::string, std::vector<float>>> gradient(std::span<const text_episode> batch) = 0;

  // errc::unsupported where all weights are trained.
  virtual expected<lora_adapter> adapter() const = 0;
  // As long as there was no step. errc::invalid_argument where rank, alpha or targets are others.
  virtual expected<void> set_adapter(const lora_adapter& a) = 0;
  // A Hugging Face folder with the trained weights, an adapter's added, in the model's precision; with the other files
  // of the model's folder. errc::unsupported for a model that is a GGUF file: it has no such files.
  virtual expected<void> save_merged(const std::string& folder) const = 0;

  // All that is trained with the optimiser's state, in FOLDER/training.json and a safetensors file that it names; after
  // a crash it is the state before or this one. `extra` is kept as it is. The same machine goes on bit for bit.
  virtual expected<void> save_state(const std::string& folder, const json& extra) const = 0;
  // Returns `extra`. errc::not_found, errc::corrupt; errc::invalid_argument where it is of another model or adapter.
  virtual expected<json> load_state(const std::string& folder) = 0;
};

}  // namespace cudal1
