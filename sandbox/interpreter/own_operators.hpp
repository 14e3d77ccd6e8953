// Operators of ours that programs may call beside ATen's, as operators of PyTorch in namespace cudal1.
#pragma once

namespace cudal1 {

// Makes them known to PyTorch, once: what they mean, by ATen's operators, on every device. A GPU's runner has
// implementations of its own (sandbox/cuda/runtime/own_gpu_operators.hpp).
void define_own_operators();

}  // namespace cudal1
