// The weights of a recurrent layer as cuDNN wants them: in one buffer, in its own order. LibTorch repacks weights that
// lie anywhere else in each call; PyTorch's modules are in order from the start (flatten_parameters). For the .cpp
// files of this folder only: it includes ATen.
#pragma once

#include "sandbox/interpreter/step_plan.hpp"

namespace cudal1 {

// Gives each lstm.input, gru.input, rnn_tanh.input and rnn_relu.input of the steps a packed copy of its weights, where
// all of them are values that stay from call to call. To be called again when a weight changes, with the values (by
// slot) on a GPU. Throws what ATen throws.
void pack_recurrent_weights(program_plan& plan, const std::vector<at::Tensor>& values);

}  // namespace cudal1
