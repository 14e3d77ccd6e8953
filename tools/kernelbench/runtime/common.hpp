#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/util/irange.h>
#include <torch/csrc/utils/pybind.h>
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
  return at::Tensor(at::detail::empty_strided_cuda(shape, strides, type, device));
#else
  return at::empty_strided(shape, strides, at::TensorOptions(type).device(device));
#endif
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

// Some operators lay their result out as the device likes: attention, on a GPU. Another type or shape stays, for
// expect().
at::Tensor laid_out_as(at::Tensor t, const tensor_type& type) {
  if (!t.sizes().equals(type.shape) || laid_out(t, type)) return t;
  return at::empty_strided(type.shape, type.strides, t.options()).copy_(t);
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
  at::Tensor copy = at::empty_strided(type.shape, type.strides, t.options());
  copy.copy_(t);
  return copy;
}

// KernelBench casts all inputs to float32, masks and indices included: they are cast back, where no value is lost.
// Autocast gives half types to what follows a product: as PyTorch's operators that want float32 do, it is cast back.
at::Tensor with_declared_type(const at::Tensor& t, const tensor_type& type, bool autocast) {
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

// The precision that a step requests of the libraries' matrix products and convolutions, while it runs.
class product_precision {
 public:
  explicit product_precision(bool tf32)
      : before_{at::globalContext().allowTF32CuBLAS(), at::globalContext().allowTF32CuDNN()} {
    set({tf32, tf32});
  }
  ~product_precision() { set(before_); }
  product_precision(const product_precision&) = delete;
  product_precision& operator=(const product_precision&) = delete;

 private:
  struct tf32_use {
    bool matmul = false, convolution = false;
  };
  static void set(tf32_use use) {
    at::globalContext().setAllowTF32CuBLAS(use.matmul);
    at::globalContext().setAllowTF32CuDNN(use.convolution);
  }
  tf32_use before_;
};

// No gradients are recorded, and nothing is cast, as when the program was evaluated.
struct plain_mode {
  c10::AutoGradMode no_gradients{false};
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 2) != 0) throw pybind11::error_already_set();
}

}  // namespace
