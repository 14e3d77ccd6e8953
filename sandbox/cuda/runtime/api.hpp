// Errors of the CUDA runtime and driver as values. The driver's functions are looked up through the runtime, so libcuda
// is not linked, and nothing here touches a device before it is called.
#pragma once

#include <type_traits>

#include "config/base/error.hpp"
#include "sandbox/cuda/runtime/cuda_calls.hpp"

namespace cudal1 {

// errc::infrastructure with the call, the error's name and its text: for calls that no variant can make fail.
expected<void> cuda_check(cudaError_t status, const char* call);
expected<void> driver_check(CUresult status, const char* call);

// The result of `work`. Exceptions of cuda_calls.hpp become errors: errc::infrastructure, as above, or
// errc::unsupported for work that cannot be re-bound.
template <class Work>
expected<std::invoke_result_t<Work>> as_value(const Work& work) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
      work();
      return {};
    } else {
      return work();
    }
  } catch (const cuda_failure& e) {
    return fail(errc::infrastructure, "{}", e.what());
  } catch (const cannot_rebind& e) {
    return fail(errc::unsupported, "{}", e.what());
  }
}

// Functions of the driver that the runtime does not offer; found once, by driver_api().
struct driver_functions {
  decltype(&::cuGetErrorName) get_error_name = nullptr;
  decltype(&::cuMemCreate) mem_create = nullptr;
  decltype(&::cuMemRelease) mem_release = nullptr;
  decltype(&::cuMemGetAllocationGranularity) mem_granularity = nullptr;
  decltype(&::cuMemExportToShareableHandle) mem_export = nullptr;
  decltype(&::cuMemImportFromShareableHandle) mem_import = nullptr;
  decltype(&::cuMemAddressReserve) mem_reserve = nullptr;
  decltype(&::cuMemAddressFree) mem_free_address = nullptr;
  decltype(&::cuMemMap) mem_map = nullptr;
  decltype(&::cuMemUnmap) mem_unmap = nullptr;
  decltype(&::cuMemSetAccess) mem_set_access = nullptr;
  decltype(&::cuKernelGetFunction) kernel_get_function = nullptr;
  decltype(&::cuKernelGetParamInfo) kernel_param_info = nullptr;
};
// errc::unsupported if there is no driver, or it is older than CUDA 12.4.
expected<const driver_functions*> driver_api();

}  // namespace cudal1

#define CUDAL1_CUDA(call) CUDAL1_CHECK(::cudal1::cuda_check((call), #call))
#define CUDAL1_DRIVER(call) CUDAL1_CHECK(::cudal1::driver_check((call), #call))
