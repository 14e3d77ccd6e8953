// The draws of sandbox/referee/draws.hpp, made on the device that they are for. Other numbers come of the same
// seed than there; the same seed gives the same values again on one kind of device.
#pragma once

#include <ATen/core/Tensor.h>

#include "sandbox/evaluation.hpp"
#include "sandbox/referee/draws.hpp"

namespace cudal1 {

// Fills `target` (of that type, on any device). Needs a few 100 MB beside it at most, and once the tensor's own size
// for a symmetric or a strided one. `content`: in the host's memory, as draw_tensor takes it.
expected<void> fill_draw(const at::Tensor& target, const tensor_type& type, const input_spec& spec, tensor_role role,
                         draw_kind kind, uint64_t seed, const std::byte* content = nullptr);

}  // namespace cudal1
