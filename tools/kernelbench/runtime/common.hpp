#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Few of PyTorch's headers: each file of an export compiles them when it is loaded. Those with all operators, with
// IValue, with pybind11 or with autograd take seconds each.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided_ops.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/irange.h>
#ifdef PROGRAM_CUDA
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace {

// A check that failed: RuntimeError in Python. The sentence is one string, put together without streams (TORCH_CHECK
// uses one for its parts): where a compiler links its C++ library into this module, that library's streams and those
// of the process, whose locale they use, are not the same, and writing a number ends the process.
[[noreturn]] void fail(const std::string& sentence) {
  throw std::runtime_error(sentence);
}

std::string text_of(at::IntArrayRef list) {
  std::string text;
  for (const int64_t n : list)
    text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}

// Allocates memory, on a GPU directly from the allocator: a call of the operator takes as long as a launch.
at::Tensor allocated(at::IntArrayRef shape, at::IntArrayRef strides, at::ScalarType type, at::Device device) {
#ifdef PROGRAM_CUDA
  if (device.is_cuda()) return at::Tensor(at::detail::empty_strided_cuda(shape, strides, type, device));
#endif
  return at::_ops::empty_strided::call(c10::fromIntArrayRefSlow(shape), c10::fromIntArrayRefSlow(strides), type,
                                       at::kStrided, device, std::nullopt);
}

// The form of a tensor that the program was made for.
struct tensor_type {
  const char* name;
  at::ScalarType dtype;
  std::vector<int64_t> shape, strides;
};

// Strides matter only in dimensions with more than one element.
bool laid_out(const at::Tensor& t, const tensor_type& type) {
  for (const auto d : c10::irange(type.shape.size()))
    if (type.shape[d] > 1 && t.strides()[d] != type.strides[d]) return false;
  return true;
}

void check_form(const at::Tensor& t, const tensor_type& type, const char* kind) {
  const auto named = [&] { return std::string(kind) + " " + type.name; };
  if (!t.defined() || t.layout() != at::kStrided) fail(named() + " is not a dense tensor");
  if (t.unsafeGetTensorImpl()->is_python_dispatch())
    fail(named() + " is of a subclass of Tensor, whose memory this program cannot read");
  if (t.scalar_type() != type.dtype || !t.sizes().equals(type.shape))
    fail(named() + " is " + c10::toString(t.scalar_type()) + " " + text_of(t.sizes()) +
         ", and this program was made for " + c10::toString(type.dtype) + " " + text_of(type.shape));
}

// Checks that the result of a step's operator has the same form as when the program was evaluated: another version of
// PyTorch might lay it out differently, and kernels rely on it.
void expect(const at::Tensor& t, const tensor_type& type) {
  check_form(t, type, "the step's result");
  if (!laid_out(t, type))
    fail(std::string("the step's result ") + type.name + " has strides " + text_of(t.strides()) +
         ", and this program was made for " + text_of(type.strides));
}

at::Tensor copied_as(const at::Tensor& t, const tensor_type& type) {
  return allocated(type.shape, type.strides, t.scalar_type(), t.device()).copy_(t);
}

// Some operators lay their result out as the device likes: attention, on a GPU. Another type or shape stays, for
// expect().
at::Tensor laid_out_as(at::Tensor t, const tensor_type& type) {
  if (!t.sizes().equals(type.shape) || laid_out(t, type)) return t;
  return copied_as(t, type);
}

// The tensor itself if it has the declared strides, begins at a multiple of `alignment` bytes and is no negative of
// its memory (the imaginary part of a conjugate), else a copy that does.
at::Tensor as_declared(const at::Tensor& t, const tensor_type& type, const char* kind, at::Device device,
                       uintptr_t alignment) {
  check_form(t, type, kind);
  if (t.device() != device)
    fail(std::string(kind) + " " + type.name + " is on " + t.device().str() + ", and the rest is on " + device.str());
  if (t._fw_grad(0).defined())
    fail(std::string(kind) + " " + type.name + " has a tangent, and this program computes no derivatives");
  if (laid_out(t, type) && !t.is_neg() && reinterpret_cast<uintptr_t>(t.const_data_ptr()) % alignment == 0)
    return t.requires_grad() ? t.detach() : t;
  return copied_as(t, type);
}

// KernelBench casts all inputs to float32, masks and indices included: they are cast back, where no value is lost.
// Autocast gives half types to what follows a product: as PyTorch's operators that want float32 do, it is cast back.
[[maybe_unused]] at::Tensor with_declared_type(const at::Tensor& t, const tensor_type& type, bool autocast) {
  if (autocast && t.is_floating_point() && c10::isFloatingType(type.dtype)) return t.to(type.dtype);
  if (t.scalar_type() == type.dtype || !t.is_floating_point() || c10::isFloatingType(type.dtype)) return t;
  at::Tensor converted = t.to(type.dtype);
  if (!converted.to(t.scalar_type()).equal(t))
    fail(std::string("input ") + type.name + " is " + c10::toString(t.scalar_type()) + " with values that " +
         c10::toString(type.dtype) + ", which this program was made for, does not have");
  return converted;
}

// In the C++ functions of ATen's operators a list of integers has one of four types.
template <class Schema, std::size_t I>
struct parameter;
template <class Result, class... Arguments, std::size_t I>
struct parameter<Result(Arguments...), I> {
  using type = std::tuple_element_t<I, std::tuple<Arguments...>>;
};
template <class Operator, std::size_t I>
auto ints(at::IntArrayRef list) {
  using wanted = typename parameter<typename Operator::schema, I>::type;
  if constexpr (std::is_same_v<wanted, at::IntArrayRef> || std::is_same_v<wanted, at::OptionalIntArrayRef>)
    return wanted(list);
  else
    return wanted(c10::fromIntArrayRefSlow(list));
}

// No gradients are recorded, and nothing is cast, as when the program was evaluated.
struct plain_mode {
  c10::AutoGradMode no_gradients{false};
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

}  // namespace
