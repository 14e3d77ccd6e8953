// What the work estimates derive from a step: its operator, its arguments, its windows.
#include <algorithm>

#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1::work_parts {

namespace {

// An "int[n]" argument along dimension `d`: one number applies to all dimensions.
int64_t along(const operator_call& call, std::string_view name, std::size_t d, int64_t otherwise) {
  const auto* list = argument<std::vector<int64_t>>(call, name);
  if (list == nullptr || list->empty()) return otherwise;
  return list->size() == 1 ? list->front() : d < list->size() ? (*list)[d] : otherwise;
}

// The stride of a call that names none: pools step by their kernel's size.
enum class usual_stride { one, kernel };

std::vector<window> windows(const operator_call& call, const tensor_type& input, const tensor_type& output,
                            const std::vector<int64_t>& kernel, usual_stride stride) {
  std::vector<window> found;
  const std::size_t n = kernel.size();
  const auto* mode = argument<std::string>(call, "padding");
  for (std::size_t d = 0; d < n && input.shape.size() >= n && output.shape.size() >= n; ++d) {
    window w;
    w.size = input.shape[input.shape.size() - n + d];
    w.positions = output.shape[output.shape.size() - n + d];
    w.kernel = kernel[d];
    w.stride = along(call, "stride", d, stride == usual_stride::kernel ? w.kernel : 1);
    w.dilation = along(call, "dilation", d, 1);
    w.padding = mode == nullptr ? along(call, "padding", d, 0) : *mode == "same" ? w.dilation * (w.kernel - 1) / 2 : 0;
    found.push_back(w);
  }
  return found;
}

std::vector<int64_t> spatial(const tensor_type& weight) {
  return {weight.shape.begin() + std::min<std::ptrdiff_t>(2, weight.dim()), weight.shape.end()};
}

}  // namespace

const operator_record& record_of(const operator_call& call) {
  static const operator_record unknown{};
  return call.op == nullptr || call.op->record == nullptr ? unknown : *call.op->record;
}

const tensor_type* tensor_of(const operator_call& call, std::string_view name) {
  const auto* found = argument<tensor_argument>(call, name);
  return found == nullptr ? nullptr : &found->type;
}

int64_t integer_of(const operator_call& call, std::string_view name, int64_t otherwise) {
  const auto* value = argument<scalar_value>(call, name);
  const auto* integer = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  return integer == nullptr ? otherwise : *integer;
}

std::vector<std::string> operands_of(const operator_call& call) {
  std::vector<std::string> names;
  for (const auto& value : call.arguments) {
    if (const auto* one = std::get_if<tensor_argument>(&value)) names.push_back(one->name);
    if (const auto* several = std::get_if<std::vector<tensor_argument>>(&value))
      for (const auto& one : *several)
        if (!one.name.empty()) names.push_back(one.name);
  }
  return names;
}

bool is_transposed(const operator_call& call) {
  if (traits_of(call).transposed) return true;
  const auto* value = argument<scalar_value>(call, "transposed");
  const auto* transposed = value == nullptr ? nullptr : std::get_if<bool>(value);
  return transposed != nullptr && *transposed;
}

const tensor_type* convolved_operand(const operator_call& call) {
  if (record_of(call).kind != operator_kind::convolution) return nullptr;
  const tensor_type* input = tensor_of(call, "input");
  return input != nullptr ? input : tensor_of(call, "self");
}

int64_t window::touched() const {
  std::vector<bool> met(static_cast<std::size_t>(std::max<int64_t>(0, size)), false);
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t k = 0; k < kernel; ++k)
      if (const int64_t at = p * stride + k * dilation - padding; at >= 0 && at < size)
        met[static_cast<std::size_t>(at)] = true;
  return std::count(met.begin(), met.end(), true);
}

int64_t window::pairs() const {
  int64_t inside = 0;
  for (int64_t k = 0; k < kernel; ++k) {
    // Positions p with 0 <= p stride + k dilation - padding < size.
    const int64_t shift = padding - k * dilation;
    const int64_t first = shift <= 0 ? 0 : (shift + stride - 1) / stride;
    const int64_t beyond = size + shift;
    const int64_t end = beyond <= 0 ? 0 : std::min(positions, (beyond + stride - 1) / stride);
    inside += std::max<int64_t>(0, end - first);
  }
  return inside;
}

std::vector<window> windows_of(const operator_call& call, const tensor_type& result) {
  if (record_of(call).kind == operator_kind::convolution) {
    const auto* input = convolved_operand(call);
    const auto* weight = tensor_of(call, "weight");
    if (input == nullptr || weight == nullptr) return {};
    // If transposed, the window moves over the result, and the input's elements are its positions.
    return is_transposed(call) ? windows(call, result, *input, spatial(*weight), usual_stride::one)
                               : windows(call, *input, result, spatial(*weight), usual_stride::one);
  }
  const auto* input = tensor_of(call, "self");
  const int dimensions = traits_of(call).pooled_dimensions;
  if (dimensions == 0 || input == nullptr) return {};
  std::vector<int64_t> kernel;
  for (int d = 0; d < dimensions; ++d)
    kernel.push_back(along(call, "kernel_size", static_cast<std::size_t>(d), 1));
  return windows(call, *input, result, kernel, usual_stride::kernel);
}

double touched_share(const std::vector<window>& windows) {
  double share = 1;
  for (const auto& w : windows)
    share *= w.size > 0 ? static_cast<double>(w.touched()) / static_cast<double>(w.size) : 0.0;
  return share;
}

}  // namespace cudal1::work_parts
