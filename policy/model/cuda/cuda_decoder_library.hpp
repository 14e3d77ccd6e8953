// What the library of decoding on GPUs exports. The model's library loads it when a model on a GPU first generates
// text: it needs LibTorch's CUDA libraries and NVRTC.
#pragma once

#include <memory>

#include "policy/model/paged_weights.hpp"
#include "policy/model/token_decoder.hpp"

namespace cudal1 {

struct cuda_decoder_library {
  // For weights on a GPU in float32, float16 or bfloat16. Page 0 belongs to nobody: pages 1 to pages - 1 are for texts.
  // errc::unsupported where the sizes of the model are not among those that the kernels can have; else as
  // token_decoder.
  expected<std::unique_ptr<token_decoder>> (*make)(const paged_weights& weights, int64_t slots, int64_t pages,
                                                   int64_t page_tokens, bool graphs);
};

// Its only symbol, a cuda_decoder_library.
inline constexpr const char* cuda_decoder_symbol = "cudal1_cuda_decoder_library";

}  // namespace cudal1
