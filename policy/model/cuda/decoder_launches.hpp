// The kernels of decoding, compiled for one model and GPU, as calls with tensors. Includes LibTorch and CUDA: only for
// the library of decoding on GPUs. All tensors are on the GPU and contiguous; rows are int32 [rows, 2]: slot and
// position.
#pragma once

#include <memory>

#include <torch/torch.h>

#include "policy/model/paged_weights.hpp"
#include "sandbox/cuda/runtime/service_kernels.hpp"

namespace cudal1 {

class decoder_launches {
 public:
  // errc::unsupported where the kernels cannot have these sizes.
  static expected<std::unique_ptr<decoder_launches>> compile(const paged_weights& weights, int64_t page_tokens);

  // Throw std::runtime_error where a launch fails, on the current stream. Null tensors are undefined ones.
  void embed(const torch::Tensor& rows, const torch::Tensor& last, const torch::Tensor& table, torch::Tensor& x) const;
  void add_norm(torch::Tensor& x, const torch::Tensor& added, const torch::Tensor& weight, torch::Tensor& out) const;
  void rotate_and_store(const torch::Tensor& qkv, const torch::Tensor& rows, const torch::Tensor& tables,
                        const paged_weights& weights, const paged_layer& layer, torch::Tensor& q,
                        const torch::Tensor& keys, const torch::Tensor& values) const;
  void gated(const torch::Tensor& gate_up, torch::Tensor& out) const;
  // Products of few rows: x [1, 2 or 4, width]. Of 2 and 4 rows LibTorch's are faster, unless the weights are few and
  // launches are what takes time (measured on an H200: 4 rows of a model of 7 billion weights took twice as long).
  static bool has_linear(int64_t rows, const torch::Tensor& weight) {
    constexpr std::size_t few_bytes = 8 << 20;
    return rows == 1 || ((rows == 2 || rows == 4) && weight.nbytes() <= few_bytes);
  }
  void linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias, torch::Tensor& out) const;

  // How many blocks share the context of a row, so that the GPU is busy.
  int64_t splits(int64_t rows, int64_t longest) const;
  // `parts`: float32 [rows, heads, splits, head size + 2]; `ready`: int32 zeros [rows, heads].
  void attend(const torch::Tensor& q, const torch::Tensor& keys, const torch::Tensor& values, const torch::Tensor& rows,
              const torch::Tensor& tables, torch::Tensor& out, torch::Tensor& parts, torch::Tensor& ready,
              int64_t splits) const;

  // As the kernel `choose` has them.
  struct wanted_token {
    uint64_t random = 0;
    int32_t row = 0, slot = 0, top_k = 0, mask = -1;
    float temperature = 1, top_p = 1;
  };
  struct made_choice {
    int32_t token = 0;
    float log_probability = 0;
  };
  // `wanted`, `masks` and `made` are device memory.
  void choose(const torch::Tensor& logits, const wanted_token* wanted, int64_t count, const uint32_t* masks,
              torch::Tensor& last, made_choice* made) const;

 private:
  decoder_launches() = default;
  void launch(const char* kernel, dim3 grid, int block, void** arguments, int shared_bytes = 0,
              kernel_start start = kernel_start::waits_itself) const;

  std::unique_ptr<service_library> library_;
  model_shape shape_;
  int64_t group_ = 1, multiprocessors_ = 1;
  int tile_bytes_ = 0;  // of shared memory, for attend
};

}  // namespace cudal1
