// Turns ATen's exceptions into errors. For .cpp files only: it includes ATen.
#pragma once

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include "config/base/error.hpp"

namespace cudal1 {

// Runs `work`; what it throws becomes errc::out_of_memory or errc::infrastructure.
template <class F>
auto without_exceptions(const char* what, F&& work) -> decltype(work()) {
  try {
    const c10::InferenceMode no_autograd;
    return work();
  } catch (const c10::OutOfMemoryError& e) {
    return fail(errc::out_of_memory, "{}: {}", what, e.what_without_backtrace());
  } catch (const c10::Error& e) {
    return fail(errc::infrastructure, "{}: {}", what, e.what_without_backtrace());
  } catch (const std::exception& e) {
    return fail(errc::infrastructure, "{}: {}", what, e.what());
  }
}

}  // namespace cudal1
