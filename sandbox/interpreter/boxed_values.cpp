#include "sandbox/interpreter/boxed_values.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <fmt/ranges.h>

namespace cudal1 {

at::ScalarType scalar_type_of(dtype t) {
  switch (t) {
    case dtype::bool_:
      return at::kBool;
    case dtype::uint8:
      return at::kByte;
    case dtype::int8:
      return at::kChar;
    case dtype::int16:
      return at::kShort;
    case dtype::int32:
      return at::kInt;
    case dtype::int64:
      return at::kLong;
    case dtype::float16:
      return at::kHalf;
    case dtype::bfloat16:
      return at::kBFloat16;
    case dtype::float32:
      return at::kFloat;
    case dtype::float64:
      return at::kDouble;
  }
  return at::ScalarType::Undefined;
}

namespace {

std::optional<c10::MemoryFormat> memory_format_of(const std::string& name) {
  if (name == "contiguous_format") return c10::MemoryFormat::Contiguous;
  if (name == "preserve_format") return c10::MemoryFormat::Preserve;
  if (name == "channels_last") return c10::MemoryFormat::ChannelsLast;
  if (name == "channels_last_3d") return c10::MemoryFormat::ChannelsLast3d;
  return std::nullopt;
}

expected<c10::IValue> boxed_name(const std::string& name, schema_type type) {
  if (type == schema_type::string) return c10::IValue(name);
  if (type == schema_type::layout) return c10::IValue(static_cast<int64_t>(c10::Layout::Strided));
  if (type == schema_type::memory_format)
    if (const auto format = memory_format_of(name)) return c10::IValue(static_cast<int64_t>(*format));
  return fail(errc::unsupported, "the interpreter does not support \"{}\"", name);
}

}  // namespace

expected<c10::IValue> boxed(const argument_value& value, schema_type type) {
  if (value.index() == 0) return c10::IValue();
  if (const auto* s = std::get_if<scalar_value>(&value)) return std::visit([](auto v) { return c10::IValue(v); }, *s);
  if (const auto* name = std::get_if<std::string>(&value)) return boxed_name(*name, type);
  if (const auto* t = std::get_if<dtype>(&value)) return c10::IValue(static_cast<int64_t>(scalar_type_of(*t)));
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) return c10::IValue(*v);
  if (const auto* v = std::get_if<std::vector<bool>>(&value)) return c10::IValue(*v);
  if (const auto* v = std::get_if<std::vector<double>>(&value)) return c10::IValue(*v);
  return fail(errc::infrastructure, "an argument is a tensor, but a constant is required");
}

at::Tensor wrap(const tensor_view& view, at::Device device) {
  return at::for_blob(view.data, view.type.shape)
      .strides(view.type.strides)
      .target_device(device)
      .options(at::TensorOptions(scalar_type_of(view.type.type)).device(device))
      .make_tensor();
}

void rebind(const at::Tensor& wrapped, void* data) {
  wrapped.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(data, wrapped.device()));
}

bool has_type(const at::Tensor& t, const tensor_type& type) {
  const auto shape = t.sizes(), strides = t.strides();
  if (t.scalar_type() != scalar_type_of(type.type) || !shape.equals(type.shape)) return false;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (strides[d] != type.strides[d] && shape[d] > 1) return false;
  return true;
}

std::string type_text(const at::Tensor& t) {
  return fmt::format("{}{} with strides {}", c10::toString(t.scalar_type()),
                     fmt::format("[{}]", fmt::join(t.sizes().begin(), t.sizes().end(), ", ")),
                     fmt::format("[{}]", fmt::join(t.strides().begin(), t.strides().end(), ", ")));
}

}  // namespace cudal1
