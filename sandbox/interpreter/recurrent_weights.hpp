// Packs the weights of a recurrent layer into one buffer in cuDNN's order, as PyTorch's modules do
// (flatten_parameters). Otherwise LibTorch repacks them in each call. For the .cpp files of this folder only: it
// includes ATen.
#pragma once

#include "sandbox/interpreter/step_plan.hpp"

namespace cudal1 {

// Gives each lstm.input, gru.input, rnn_tanh.input and rnn_relu.input of the steps a packed copy of its weights, if all
// of them are values that persist from call to call. Call it again when a weight changes. `values`: by slot, on a GPU.
// Throws ATen's exceptions.
void pack_recurrent_weights(program_plan& plan, const std::vector<at::Tensor>& values);

}  // namespace cudal1
