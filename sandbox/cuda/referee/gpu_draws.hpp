// Makes the draws of sandbox/referee/draw_recipe.hpp on the device. On one kind of device the same seed gives the same
// values.
#pragma once

#include <ATen/core/Tensor.h>

#include "config/base/error.hpp"
#include "sandbox/referee/draw_recipe.hpp"

namespace cudal1 {

// Fills `target` (of how.type, on any device). Needs at most a few 100 MB of extra memory, plus the tensor's own size
// for a symmetric or a strided tensor.
expected<void> fill_draw(const at::Tensor& target, const tensor_draw& how);

}  // namespace cudal1
