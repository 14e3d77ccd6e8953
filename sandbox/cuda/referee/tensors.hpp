// Between our types and ATen's, on any device. For the .cpp files of this folder: it includes ATen.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include "sandbox/interpreter/interpreter.hpp"

namespace cudal1 {

at::ScalarType element_type(dtype t);

// Memory of somebody else as a tensor; it must outlive the tensor.
at::Tensor tensor_over(const tensor_type& type, void* data, at::Device device);

// What ATen throws in `work`, as errc::infrastructure ("out of memory" is in the text where that is it).
template <class F>
auto without_exceptions(const char* what, F&& work) -> decltype(work()) {
  try {
    const c10::InferenceMode no_autograd;
    return work();
  } catch (const c10::Error& e) {
    return fail(errc::infrastructure, "{}: {}", what, e.what_without_backtrace());
  } catch (const std::exception& e) {
    return fail(errc::infrastructure, "{}: {}", what, e.what());
  }
}

}  // namespace cudal1
