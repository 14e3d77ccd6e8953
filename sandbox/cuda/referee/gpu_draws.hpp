// The draws of sandbox/referee/draw_recipe.hpp, made on the device that they are for. The same seed gives the same
// values again on one kind of device.
#pragma once

#include <ATen/core/Tensor.h>

#include "config/base/error.hpp"
#include "sandbox/referee/draw_recipe.hpp"

namespace cudal1 {

// Fills `target` (of how.type, on any device). Needs a few 100 MB beside it at most, and once the tensor's own size for
// a symmetric or a strided one.
expected<void> fill_draw(const at::Tensor& target, const tensor_draw& how);

}  // namespace cudal1
