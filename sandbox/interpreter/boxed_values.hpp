// Conversion between our types and LibTorch's. Include it in .cpp files only: it includes ATen.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "sandbox/interpreter/interpreter.hpp"

namespace cudal1 {

at::ScalarType scalar_type_of(dtype t);

// An argument other than a tensor, boxed for the dispatcher. `type`: the schema's.
expected<c10::IValue> boxed(const argument_value& value, schema_type type);

// A tensor on that device in memory that it does not own and that must outlive it. rebind() moves it to other memory.
at::Tensor wrap(const tensor_view& view, at::Device device = at::kCPU);
void rebind(const at::Tensor& wrapped, void* data);

// Whether `t` has this type, ignoring strides of dimensions of size 1.
bool has_type(const at::Tensor& t, const tensor_type& type);
std::string type_text(const at::Tensor& t);

}  // namespace cudal1
