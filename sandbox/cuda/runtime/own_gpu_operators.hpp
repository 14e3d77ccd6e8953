// Operators of ours on a GPU.
#pragma once

#include <string>

namespace cudal1 {

// `cudal1::convolution_graph` by cuDNN's graph API, from then on and in this process. Of float64, in which no engine
// computes, and which expected outputs alone have, it stays what ATen's operators make of it.
void use_own_gpu_operators();

// "9.19.0": which engines there are, and what their numbers mean, is cuDNN's own. "none" where there is no cuDNN.
std::string cudnn_version();

}  // namespace cudal1
