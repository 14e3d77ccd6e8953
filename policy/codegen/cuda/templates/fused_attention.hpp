// Attention as one kernel that keeps scores and weights in registers: a product, softmax over its last dimension and a
// product with what follows from them, or scaled_dot_product_attention.
#pragma once

#include "policy/codegen/kernel_template.hpp"

namespace cudal1 {

kernel_template attention();

}  // namespace cudal1
