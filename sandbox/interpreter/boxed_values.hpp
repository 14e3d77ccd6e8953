// Between our types and LibTorch's. For .cpp files: it includes ATen.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "sandbox/interpreter/interpreter.hpp"

namespace cudal1 {

at::ScalarType scalar_type_of(dtype t);

// An argument that is no tensor, as the dispatcher's boxed calls take it. `type`: the schema's.
expected<c10::IValue> boxed(const argument_value& value, schema_type type);

// Memory of somebody else, which outlives it, as a tensor on that device; and the same tensor moved to other memory.
at::Tensor wrap(const tensor_view& view, at::Device device = at::kCPU);
void rebind(const at::Tensor& wrapped, void* data);

// Whether `t` is what the rules said; strides of dimensions of size 1 say nothing.
bool has_type(const at::Tensor& t, const tensor_type& type);
std::string type_text(const at::Tensor& t);

}  // namespace cudal1
