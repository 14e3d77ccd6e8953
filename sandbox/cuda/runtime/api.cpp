#include "sandbox/cuda/runtime/api.hpp"

namespace cudal1 {

expected<void> cuda_check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return {};
  return fail(errc::infrastructure, "{}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

expected<void> driver_check(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  if (const auto api = driver_api(); api) (*api)->get_error_name(status, &name);
  return fail(errc::infrastructure, "{}: {}", call, name != nullptr ? name : "an unknown error of the driver");
}

namespace {

template <class F>
expected<void> find(const char* name, F& function) {
  std::string why;
  function = reinterpret_cast<F>(find_driver_function(name, why));
  if (function != nullptr) return {};
  return fail(errc::unsupported, "{}; cudal1 needs a driver for CUDA 13 (580 or newer)", why);
}

expected<driver_functions> find_all() {
  driver_functions f;
  CUDAL1_CHECK(find("cuGetErrorName", f.get_error_name));
  CUDAL1_CHECK(find("cuMemCreate", f.mem_create));
  CUDAL1_CHECK(find("cuMemRelease", f.mem_release));
  CUDAL1_CHECK(find("cuMemGetAllocationGranularity", f.mem_granularity));
  CUDAL1_CHECK(find("cuMemExportToShareableHandle", f.mem_export));
  CUDAL1_CHECK(find("cuMemImportFromShareableHandle", f.mem_import));
  CUDAL1_CHECK(find("cuMemAddressReserve", f.mem_reserve));
  CUDAL1_CHECK(find("cuMemAddressFree", f.mem_free_address));
  CUDAL1_CHECK(find("cuMemMap", f.mem_map));
  CUDAL1_CHECK(find("cuMemUnmap", f.mem_unmap));
  CUDAL1_CHECK(find("cuMemSetAccess", f.mem_set_access));
  CUDAL1_CHECK(find("cuKernelGetFunction", f.kernel_get_function));
  CUDAL1_CHECK(find("cuKernelGetParamInfo", f.kernel_param_info));
  return f;
}

}  // namespace

expected<const driver_functions*> driver_api() {
  static const expected<driver_functions> found = find_all();
  if (!found) return tl::unexpected<error>(found.error());
  return &*found;
}

}  // namespace cudal1
