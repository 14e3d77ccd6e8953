// The loss of a policy's tokens, which all trainers share. Includes LibTorch: only for the model's library.
#pragma once

#include <torch/torch.h>

#include "policy/model/language_model.hpp"

namespace cudal1 {

// Of each chosen token, [tokens]. All but `now` are constants.
struct policy_tokens {
  torch::Tensor now, before;  // log probability by the model, and by that before the step
  torch::Tensor advantage;
  torch::Tensor reference;   // log probability by the reference; none: there is no KL term
  torch::Tensor importance;  // factor of the gain; none: 1
};

struct policy_token_losses {
  torch::Tensor loss;        // with the KL term, without the entropy's
  torch::Tensor kl;          // none without a reference
  torch::Tensor is_clipped;  // bool
};

// As graded_sequence says (GRPO).
policy_token_losses losses_of(const policy_tokens& t, const grpo_options& how);

}  // namespace cudal1
