// The policy's own language model, on LibTorch: its implementation is a library that is loaded when it is first needed
// (errc::unsupported where LibTorch cannot be loaded). Tokens are numbers below the
// shape's vocabulary; what they mean, and which are legal where, is the caller's matter.
//
// A sequence of tokens has a list of legal tokens for each of them that the model chose: probabilities are among these.
// What is known of them without the model is added to its logits: it learns what that does not say.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "policy/model/model_shape.hpp"
#include "policy/model/text_engine.hpp"
#include "policy/model/text_generation.hpp"
#include "policy/model/training/adapter.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

// The tokens that may come next, ascending, and what is added to their logits (empty: nothing).
struct legal_tokens {
  legal_tokens(std::vector<token> t = {}, std::vector<float> p = {}) : tokens(std::move(t)), prior(std::move(p)) {}
  legal_tokens(std::initializer_list<token> t) : tokens(t) {}

  std::vector<token> tokens;
  std::vector<float> prior;
};

struct token_sequence {
  std::vector<token> tokens = {};
  // For each token those that were legal in its place, with itself; none: it was given, not chosen. The first one is
  // always given.
  std::vector<legal_tokens> legal = {};
  // For each token the number that it stands for ("size" and 10.3), NaN where it stands for none. Empty: none does. The
  // model sees it through waves of several periods, the shortest 4, so differences below a hundredth are lost.
  std::vector<float> values = {};
};

struct sampling_options {
  double temperature = 1;  // 0: the most probable token
  double top_p = 1;        // of the legal tokens, the fewest most probable ones with at least this probability
  int64_t most_tokens = 256;
  uint64_t seed = 0;
};

// The legal tokens after these of one sample; none: it is complete. For each sample, from one thread.
using token_grammar = std::function<legal_tokens(std::size_t sample, std::span<const token> so_far)>;

struct sampled_sequence {
  token_sequence sequence;  // the prompt and what was chosen
  // Of each chosen token among the legal ones, at temperature 1. Where only one is legal, it counts as given.
  std::vector<double> log_probability;
  bool complete = false;  // else it reached the limit or the context's end
};

// A sequence to learn from.
struct weighted_sequence {
  token_sequence sequence;
  double weight = 1;
};

// A sequence with its advantage, as GRPO learns from it (DeepSeekMath, arXiv 2402.03300): for each chosen token the
// loss is -min(r A, clip(r, 1 - c, 1 + c) A) + k KL - e entropy, where r is its probability now over that when it was
// sampled, and KL is the estimate q - log q - 1 with q = the reference's probability over that now.
struct graded_sequence {
  token_sequence sequence;
  double advantage = 0;
  std::vector<double> sampled;    // log probability of each chosen token by the model that sampled it
  std::vector<double> reference;  // ... by the reference model
};

struct grpo_options {
  double ratio_clip = 0.2;
  double kl_weight = 0.02;
  double entropy_weight = 0.0;
};

// Means over the chosen tokens.
struct step_report {
  double loss = 0;
  double kl = 0, entropy = 0, clipped = 0;  // clipped: share of tokens whose ratio was
  double gradient_norm = 0;                 // before it was clipped
  int64_t tokens = 0;
};
BOOST_DESCRIBE_STRUCT(step_report, (), (loss, kl, entropy, clipped, gradient_norm, tokens))

struct optimizer_options {
  double rate = 3e-4, weight_decay = 0.01;  // AdamW
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double gradient_clip = 1;  // of the norm over all parameters; 0: none
};

enum class model_precision { float32, float64, bfloat16 };  // float64: to check gradients

class language_model {
 public:
  // With random weights. errc::invalid_argument from check_shape.
  static expected<std::unique_ptr<language_model>> make(const model_shape& shape, uint64_t seed,
                                                        model_precision precision = model_precision::float32);
  // The weights of a safetensors file with the names of a Llama checkpoint, in float32, float16 or bfloat16.
  // errc::corrupt names the tensor that is missing, or has another type or shape.
  static expected<std::unique_ptr<language_model>> load(const model_shape& shape, const std::string& path);
  // A pretrained model: a Hugging Face folder, a GGUF file or an adapter (errors of pretrained_weights::open), with its
  // tokenizer's tokens. float32 or bfloat16, on a device as that of use_device(): weights are copied there one by one.
  static expected<std::unique_ptr<language_model>> open(const std::string& path, model_precision precision,
                                                        const std::string& device = "cpu");
  // Threads of LibTorch in this process; 0: one for each core on which the calling thread may run.
  static expected<void> use_threads(int count);
  virtual ~language_model() = default;

  virtual const model_shape& shape() const = 0;
  // Moves it to "cpu" or "cuda:0", ...: before it learns. errc::unsupported where LibTorch has no such device.
  virtual expected<void> use_device(const std::string& device) = 0;
  virtual std::string device() const = 0;
  // In float32, float16 or bfloat16, rounded to nearest.
  virtual expected<void> save(const std::string& path, dtype type = dtype::float32) const = 0;
  // Another one with the same weights, without the optimiser's state.
  virtual std::unique_ptr<language_model> clone() const = 0;

  // Log probabilities of the chosen tokens, in their order. errc::invalid_argument where a sequence is longer than the
  // context, or a token not below the vocabulary or not among its legal ones.
  virtual expected<std::vector<std::vector<double>>> score(std::span<const token_sequence> sequences) const = 0;
  // `each` samples of each prompt, beside each other; a prompt has at least one token, and what its tokens have as
  // legal is not looked at. A prompt is read once. The same seed gives the same samples on the same machine, whatever
  // else is sampled beside them but for rounding.
  virtual expected<std::vector<sampled_sequence>> sample(std::span<const token_sequence> prompts,
                                                         const token_grammar& legal, const sampling_options& options,
                                                         std::size_t each = 1) const = 0;

  // Logits of what follows each of the tokens: [tokens, vocabulary], row-major.
  virtual expected<std::vector<float>> logits(std::span<const token> tokens) const = 0;
  // An engine that generates free text with these weights, and keeps a cache of its own. The model must outlive it, and
  // neither learn nor move meanwhile. errc::invalid_argument where the model's tokens have values or an option is out
  // of range; errc::out_of_memory where the cache does not fit the device.
  virtual expected<std::unique_ptr<text_engine>> make_engine(const engine_options& options) const = 0;
  // The options of the engine that generate() uses, made when it is first needed.
  virtual void set_engine_options(const engine_options& options) = 0;
  // `each` answers to each prompt of free text, beside each other: all tokens are legal. What all prompts begin with is
  // read once, and what earlier calls have read is used again as long as there is room. The same seed gives the same
  // answers on the same machine, whatever else is generated beside them but for rounding. One call after the other.
  // errc::invalid_argument where a prompt does not fit the context, or an option is out of range. LibTorch's own
  // failures (no memory on the device) are errc::out_of_memory or errc::infrastructure.
  virtual expected<generation> generate(std::span<const std::vector<token>> prompts, const generation_options& options,
                                        std::size_t each = 1, const token_listener& listener = {}) const = 0;

  // From now on the pretrained weights with this change, in place of an earlier one; they are read from the model's
  // files again, so that they are rounded once. errc::invalid_argument where the model was not opened or the adapter is
  // of another one. Not while something is generated.
  virtual expected<void> use_adapter(const lora_adapter& a) = 0;

  // One step of AdamW on the mean over the chosen tokens of: -weight log p (supervised), or GRPO's loss.
  virtual expected<step_report> learn(std::span<const weighted_sequence> batch, const optimizer_options& how) = 0;
  virtual expected<step_report> learn(std::span<const graded_sequence> batch, const grpo_options& loss,
                                      const optimizer_options& how) = 0;
  // Moves the weights towards another model's of the same shape: w += share (other - w).
  virtual void move_towards(const language_model& other, double share) = 0;

  // Weights and the optimiser's state, to go on as if nothing had happened.
  virtual std::string checkpoint() const = 0;
  virtual expected<void> restore(const std::string& checkpoint) = 0;

  // All weights, one tensor after the other.
  virtual std::vector<double> weights() const = 0;
  virtual void set_weights(std::span<const double> values) = 0;
  // The gradient of the loss of learn(), in the order of weights(), without a step.
  virtual expected<std::vector<double>> gradient(std::span<const weighted_sequence> batch) = 0;
  virtual expected<std::vector<double>> gradient(std::span<const graded_sequence> batch, const grpo_options& loss) = 0;
};

}  // namespace cudal1
