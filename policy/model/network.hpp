// The transformer itself: weights, and what it makes of sequences. Includes LibTorch: only for the model's library.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "policy/model/paged_weights.hpp"
#include "policy/model/sequence_batch.hpp"

namespace cudal1 {

// Changes a projection by a low rank: x a^T b^T is added, scaled, to its result. In float32; none: it stays as it is.
struct low_rank_change {
  torch::Tensor a, b;  // [rank, inputs], [outputs, rank]
};

// Of a layer, in the order of adapter_targets.
enum projection : uint8_t { of_q, of_k, of_v, of_o, of_gate, of_up, of_down, projections_of_layer };

// Biases and norms of q and k: none where the shape has none.
struct layer_weights {
  torch::Tensor attention_norm, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm, o, mlp_norm, gate, up, down;
  std::array<low_rank_change, projections_of_layer> changes;
  torch::Tensor qkv, qkv_bias, gate_up;  // after network::fused(): what q, k, v, gate and up are parts of
};

struct keys_and_values {
  torch::Tensor keys, values;  // [sequences, kv_heads, places, head size]
};

// What samples have read so far. The samples of a prompt share its keys and values.
struct sampling_cache {
  std::vector<keys_and_values> prompts, samples;  // by layer
  torch::Tensor padding;                          // places before each prompt, [prompts, 1]
  torch::Tensor hidden;                           // to be added to scores of a prompt's places, [prompts, 1, 1, places]
  int64_t read = 0;                               // tokens of each sample after its prompt
};

class network {
 public:
  network(const model_shape& shape, torch::ScalarType type);

  const model_shape& shape() const { return shape_; }
  torch::ScalarType type() const { return type_; }
  torch::Device device() const { return device_; }
  void move_to(torch::Device device);

  // Tensors with the names of Llama's checkpoints, in a fixed order.
  struct named_weight {
    std::string name;
    torch::Tensor* tensor;
    std::vector<int64_t> size;
  };
  std::vector<named_weight> named();
  // To read from.
  std::vector<named_weight> named() const { return const_cast<network*>(this)->named(); }
  std::vector<torch::Tensor> tensors() const;

  void initialise(uint64_t seed);
  // After the tensors were replaced: their gradients are wanted.
  void own_weights();

  // The residual stream after the last norm: [samples, tokens, width]. `padding`: how many places at the beginning of
  // each sample are padding, [samples, 1]. Keys and values are added to `kept`, if there is one.
  torch::Tensor hidden(const network_input& read, const torch::Tensor& padding,
                       std::vector<keys_and_values>* kept) const;
  // For `each` samples of each prompt that was read, and `most` tokens of each.
  void make_room(sampling_cache& cache, int64_t each, int64_t most) const;
  // As hidden(), of one further token of each sample: [samples, width].
  torch::Tensor hidden_of_next(const network_input& next, sampling_cache& cache) const;

  // As hidden(), of one text without values, int64 [tokens]: [tokens, width].
  torch::Tensor hidden_of_text(const torch::Tensor& tokens) const { return hidden_of_texts(tokens, {tokens.size(0)}); }
  // Of several texts with these lengths, one after the other, none of which sees another.
  enum class layers_are : uint8_t { kept, recomputed };  // for their gradients
  torch::Tensor hidden_of_texts(const torch::Tensor& tokens, const std::vector<int64_t>& lengths,
                                layers_are mode = layers_are::kept) const;
  // Sets a change, and by what all of them are scaled. fused() does not have them.
  void set_change(std::size_t layer, std::size_t of, low_rank_change change) {
    layers_[layer].changes[of] = std::move(change);
  }
  void scale_changes(double by) { change_scale_ = by; }
  // Whether they are applied.
  void apply_changes(bool on) { applies_changes_ = on; }
  // The weights for generation: those that read the same become parts of one tensor, here too, which is no change to
  // their values. Not while another thread uses the network.
  paged_weights fused() const;

  torch::Tensor logits_of(const torch::Tensor& states) const {
    return torch::linear(states, last_.defined() ? last_ : embedding_);
  }
  // Of every token among the legal ones in the place of each chosen one: [choices, vocabulary]; -inf where illegal.
  torch::Tensor log_probabilities(const network_input& read, const choices& chosen) const;

 private:
  // Of the angles of rotary positions: [samples, 1, tokens, head size], each in both halves.
  struct rotation {
    torch::Tensor cosine, sine;
  };
  struct projections {
    torch::Tensor q, k, v;  // [samples, heads, tokens, head size]; q is scaled
  };

  static torch::Tensor rotated(const torch::Tensor& x, const rotation& by);
  // Of positions, [samples, tokens].
  rotation rotation_of(const torch::Tensor& position) const;
  torch::Tensor projected(const layer_weights& l, projection which, const torch::Tensor& x, const torch::Tensor& weight,
                          const torch::Tensor& bias = {}) const;
  // A layer of texts beside each other.
  torch::Tensor layer_of_texts(const layer_weights& l, const torch::Tensor& x, const rotation& by,
                               const std::vector<int64_t>& lengths) const;
  projections projections_of(const layer_weights& l, const torch::Tensor& x, const rotation& by) const;
  // The residual stream after a layer, from what its attention made: [samples, tokens, width].
  torch::Tensor after_layer(const layer_weights& l, const torch::Tensor& x, const torch::Tensor& mixed) const;

  model_shape shape_;
  torch::ScalarType type_;
  torch::Device device_ = torch::kCPU;
  torch::Tensor embedding_, norm_;
  torch::Tensor of_values_, last_;  // none where tokens have no values, and where embeddings are tied
  torch::Tensor frequency_;         // of rotary positions, float32 or float64 [head size / 2]
  std::vector<layer_weights> layers_;
  double change_scale_ = 1;
  bool applies_changes_ = true;
};

}  // namespace cudal1
