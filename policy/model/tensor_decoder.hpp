// A token_decoder by LibTorch's operators, for any of its devices: correct everywhere, and not fast. Pages are gathered
// for each attention, but for those of answers on the CPU (paged_attention). Includes LibTorch: only for the model's
// library.
#pragma once

#include <memory>

#include "policy/model/paged_weights.hpp"
#include "policy/model/token_decoder.hpp"

namespace cudal1 {

// With `slots` slots and pages 0 to pages - 1. Throws c10::OutOfMemoryError where they do not fit.
std::unique_ptr<token_decoder> make_tensor_decoder(const paged_weights& weights, int64_t slots, int64_t pages,
                                                   int64_t page_tokens);

}  // namespace cudal1
