// Whole LSTMs, GRUs and RNNs as one cooperative kernel: aten::lstm.input and the like, in float32.
#pragma once

#include "policy/codegen/kernel_template.hpp"

namespace cudal1 {

kernel_template recurrent_layers();

}  // namespace cudal1
