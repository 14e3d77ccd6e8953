// Sequences as the tensors that the language model's network reads. Includes LibTorch: only for the model's library.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <torch/torch.h>

#include "policy/model/language_model.hpp"

namespace cudal1 {

// The chosen tokens of a batch: where they are, and what was legal there.
struct choices {
  std::vector<int64_t> row, before, chosen;  // sequence, position of the token before it, the token
  torch::Tensor prior;                       // float [choices, vocabulary]: what is added to logits, -inf: illegal
  std::vector<std::size_t> of_sequence;      // number of choices of each sequence
};

// What a network reads: tokens, and their values where the shape has any, as [samples, places].
struct network_input {
  torch::Tensor tokens, values;

  network_input(std::size_t samples, std::size_t places, const model_shape& shape);
  void set(std::size_t sample, std::size_t first, const token_sequence& s);
};

// errc::invalid_argument, with the sequence's number, where the model cannot read it.
expected<void> check_sequence(const token_sequence& s, const model_shape& shape, std::size_t number);

using sequences = std::span<const token_sequence* const>;
expected<choices> choices_of(sequences batch, const model_shape& shape);
// Right-padded; causal attention never looks at the padding.
network_input padded(sequences batch, const model_shape& shape);

torch::Tensor as_tensor(const std::vector<int64_t>& values, torch::Device device = torch::kCPU);

}  // namespace cudal1
