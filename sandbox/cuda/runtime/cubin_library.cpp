#include "sandbox/cuda/runtime/cubin_library.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include <c10/cuda/CUDAStream.h>

#include "sandbox/cuda/runtime/api.hpp"
#include "sandbox/cuda/runtime/cubin_bundle.hpp"
#include "sandbox/cuda/runtime/cubin_variables.hpp"
#include "sandbox/cuda/runtime/tensor_maps.hpp"

namespace cudal1 {
namespace {

struct device_kernel : kernel_handle {
  std::string name;
  cudaKernel_t handle = nullptr;
  int parameters = 0;
};

const device_kernel& kernel_of(const kernel_handle* kernel) {
  return *static_cast<const device_kernel*>(kernel);
}

// Of a type that check_tensor_map() accepted.
CUtensorMapDataType element_of_map(dtype type) {
  switch (type) {
    case dtype::float16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case dtype::bfloat16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case dtype::float64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case dtype::int32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case dtype::int64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case dtype::uint8:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

class cubin_library final : public kernel_library {
 public:
  explicit cubin_library(int device) : device_(device) {}
  ~cubin_library() override {
    for (const auto library : libraries_)
      (void)cudaLibraryUnload(library);
  }

  expected<void> load(std::string_view object) {
    CUDAL1_TRY(const auto cubins, cubins_in(object));
    for (const auto cubin : cubins)
      CUDAL1_CHECK(load_one(cubin));
    return {};
  }

  expected<const kernel_handle*> find(const std::string& kernel) const override {
    const auto found = kernels_.find(kernel);
    if (found == kernels_.end()) return fail(errc::invalid_program, "the source defines no kernel \"{}\"", kernel);
    return &found->second;
  }
  int64_t frame_bytes() const { return frame_bytes_; }
  const std::vector<tensor_view>& variables() const { return variables_; }
  int parameter_count(const kernel_handle* kernel) const override { return kernel_of(kernel).parameters; }
  bool uses_fibers(const kernel_handle*) const override { return false; }
  expected<void> prepare(const kernel_launch&, int) const override { return {}; }

  expected<tensor_map_value> map_tensor(const tensor_map& map, const tensor_type& type,
                                        const void* data) const override {
    const mapped_tensor t{
        element_of_map(type.type), size_of(type.type), type.shape, type.strides, map.box, map.swizzle};
    return as_value([&] {
      const CUtensorMap made = map_of(t, data);
      tensor_map_value value{};
      static_assert(sizeof made <= sizeof value);
      std::memcpy(&value, &made, sizeof made);
      return value;
    });
  }

  void launch(const kernel_launch& launch, void* const* arguments, int) const override {
    const auto of = [](const std::array<int64_t, 3>& sizes) {
      return dim3(static_cast<unsigned>(sizes[0]), static_cast<unsigned>(sizes[1]), static_cast<unsigned>(sizes[2]));
    };
    const auto& k = kernel_of(launch.kernel);
    const auto status = launch_kernel(k.handle, of(launch.grid), of(launch.block), const_cast<void**>(arguments),
                                      static_cast<std::size_t>(launch.shared_bytes),
                                      c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device_)),
                                      {.cooperative = launch.cooperative, .programmatic = launch.programmatic});
    if (status == cudaSuccess) return;
    throw std::runtime_error(
        fmt::format("the {}launch of {} with {} bytes of dynamic shared memory is not possible on this device: {} ({})",
                    launch.cooperative ? "cooperative " : "", k.name, launch.shared_bytes, cudaGetErrorString(status),
                    cudaGetErrorName(status)));
  }

 private:
  expected<void> load_one(std::string_view cubin) {
    cudaLibrary_t library = nullptr;
    const auto status = cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (status != cudaSuccess)
      return fail(errc::invalid_program, "the compiled kernels do not load: {}", cudaGetErrorString(status));
    libraries_.push_back(library);
    unsigned count = 0;
    CUDAL1_CUDA(cudaLibraryGetKernelCount(&count, library));
    std::vector<cudaKernel_t> handles(count);
    if (count > 0) CUDAL1_CUDA(cudaLibraryEnumerateKernels(handles.data(), count, library));
    for (const cudaKernel_t handle : handles)
      CUDAL1_CHECK(add(handle));
    return find_variables(cubin, library);
  }

  expected<void> add(cudaKernel_t handle) {
    device_kernel k;
    const char* name = nullptr;
    CUDAL1_CUDA(cudaFuncGetName(&name, handle));
    k.name = name;
    k.handle = handle;
    CUDAL1_TRY(const auto* const api, driver_api());
    std::size_t offset = 0, size = 0;
    while (api->kernel_param_info(reinterpret_cast<CUkernel>(handle), static_cast<std::size_t>(k.parameters), &offset,
                                  &size) == CUDA_SUCCESS)
      ++k.parameters;
    // Allow as much dynamic shared memory as the kernel's static shared memory leaves.
    cudaFuncAttributes attributes{};
    CUDAL1_CUDA(cudaFuncGetAttributes(&attributes, handle));
    frame_bytes_ = std::max(frame_bytes_, static_cast<int64_t>(attributes.localSizeBytes));
    int most = 0;
    CUDAL1_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_));
    const int left = most - static_cast<int>(attributes.sharedSizeBytes);
    if (left > 0) CUDAL1_CUDA(cudaFuncSetAttribute(handle, cudaFuncAttributeMaxDynamicSharedMemorySize, left));
    kernels_.emplace(k.name, k);
    return {};
  }

  expected<void> find_variables(std::string_view cubin, cudaLibrary_t library) {
    CUDAL1_TRY(const auto declared, variables_of_cubin(cubin));
    for (const auto& v : declared) {
      void* at = nullptr;
      std::size_t bytes = 0;
      CUDAL1_CUDA(cudaLibraryGetGlobal(&at, &bytes, library, std::string(v.name).c_str()));
      if (bytes > 0)
        variables_.push_back({contiguous(dtype::uint8, {static_cast<int64_t>(bytes)}), static_cast<std::byte*>(at)});
    }
    return {};
  }

  int device_;
  std::vector<cudaLibrary_t> libraries_;
  int64_t frame_bytes_ = 0;
  std::map<std::string, device_kernel> kernels_;
  std::vector<tensor_view> variables_;
};

}  // namespace

expected<std::unique_ptr<kernel_library>> load_cubin(std::string_view object, int device) {
  auto library = std::make_unique<cubin_library>(device);
  CUDAL1_CHECK(library->load(object));
  return library;
}

int64_t frame_bytes_of(const kernel_library& library) {
  return static_cast<const cubin_library&>(library).frame_bytes();
}

const std::vector<tensor_view>& variables_of(const kernel_library& library) {
  return static_cast<const cubin_library&>(library).variables();
}

}  // namespace cudal1
