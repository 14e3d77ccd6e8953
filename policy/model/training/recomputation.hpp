// Work whose intermediate results are not kept for its gradient, but computed again. Includes LibTorch: only for the
// model's library.
#pragma once

#include <functional>

#include <torch/torch.h>

namespace cudal1 {

// work(x), which may read parameters: their gradients are added to `grad` by backward(), not by autograd::grad.
// `x` must want a gradient.
torch::Tensor recomputed(std::function<torch::Tensor(const torch::Tensor&)> work, const torch::Tensor& x);

}  // namespace cudal1
