// The weights of a convolution on tensor cores, in the order in which blocks copy them, rounded to TF32.
#pragma once

#include <string>

#include "policy/codegen/cuda/warpgroup_convolution.hpp"
#include "policy/codegen/emit_kernel.hpp"

namespace cudal1 {

// Of $0, the part that TF32 holds; of what is left of $0 without that part, $1, the same. As cuDNN rounds in most of
// its convolutions (seen on an H200): with ties the other way, one element in 8,192, a result is as exact, but further
// from eager's than KernelBench's evaluator allows.
inline constexpr const char* rounded_to_tf32 = "__uint_as_float(tf32_even_of_float($0))";
inline constexpr const char* rest_as_tf32 = "__uint_as_float(tf32_even_of_float($0 - $1))";

// The tensor that has them, of that name.
body_access packed_weights(const kernel_body& body, const warpgroup_convolution& l, const std::string& name);
// The kernel that packs them, at set-up where they are constant.
expected<emitted_kernel> emit_packed_weights(const emit_request& request, const warpgroup_convolution& l,
                                             const body_access& packed);

}  // namespace cudal1
