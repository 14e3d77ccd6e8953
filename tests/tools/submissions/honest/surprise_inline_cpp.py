"""An extension in C++, built when it is loaded."""
# problem: softmax
import torch
import torch.nn as nn

from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

torch::Tensor softmax(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const auto rows = x.size(0), columns = x.size(1);
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  for (int64_t r = 0; r < rows; ++r, from += columns, to += columns) {
    float most = from[0], sum = 0;
    for (int64_t c = 1; c < columns; ++c) most = std::max(most, from[c]);
    for (int64_t c = 0; c < columns; ++c) sum += to[c] = std::exp(from[c] - most);
    for (int64_t c = 0; c < columns; ++c) to[c] /= sum;
  }
  return y;
}
"""
extension = load_inline("own_softmax", cpp_sources=SOURCE, functions=["softmax"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.softmax(x)
