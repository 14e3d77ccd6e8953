// A model's weights as generation reads them: matrices with the same input are one. Includes LibTorch: only for the
// model's libraries.
#pragma once

#include <vector>

#include <torch/torch.h>

#include "policy/model/model_shape.hpp"

namespace cudal1 {

struct paged_layer {
  torch::Tensor attention_norm;
  torch::Tensor qkv, qkv_bias;   // [query width + 2 kv width, width]; the bias is none where the shape has none
  torch::Tensor q_norm, k_norm;  // none where the shape has none
  torch::Tensor o, mlp_norm;
  torch::Tensor gate_up;  // [2 hidden, width]
  torch::Tensor down;
};

struct paged_weights {
  model_shape shape;
  torch::Tensor embedding, norm, last;
  torch::Tensor frequency;  // of rotary positions, float32 or float64 [head size / 2]
  std::vector<paged_layer> layers;

  torch::ScalarType type() const { return embedding.scalar_type(); }
  torch::Device device() const { return embedding.device(); }
  int64_t bytes() const {
    int64_t sum = 0;
    const auto add = [&](const torch::Tensor& t) { sum += t.defined() ? static_cast<int64_t>(t.nbytes()) : 0; };
    for (const auto& l : layers)
      for (const auto* t :
           {&l.attention_norm, &l.qkv, &l.qkv_bias, &l.q_norm, &l.k_norm, &l.o, &l.mlp_norm, &l.gate_up, &l.down})
        add(*t);
    add(embedding);
    add(norm);
    if (!last.is_same(embedding)) add(last);
    return sum;
  }
  // Of keys and values of one page.
  int64_t page_bytes(int64_t page_tokens) const {
    return page_tokens * shape.cached_elements() * static_cast<int64_t>(embedding.element_size());
  }
};

}  // namespace cudal1
