#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

// In the CUDA source: the kernels, in the order in which the program numbers them.
const void* const* program_kernels();

namespace {

template <class... Arguments>
void launch_as(launch_options options, const char* name, int kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
               Arguments... arguments) {
  void* pointers[sizeof...(Arguments) + 1] = {static_cast<void*>(&arguments)...};
  check_runtime(launch_kernel(program_kernels()[kernel], grid, block, pointers, shared_bytes,
                              c10::cuda::getCurrentCUDAStream(), options),
                name);
}

template <class... Arguments>
void launch(const char* name, int kernel, dim3 grid, dim3 block, std::size_t shared_bytes, Arguments... arguments) {
  launch_as(launch_options(), name, kernel, grid, block, shared_bytes, arguments...);
}

void* memory_of(const at::Tensor& t) {
  return const_cast<void*>(t.const_data_ptr());
}

// More than 48 KiB of dynamic shared memory must be allowed for each kernel on each device.
void allow_shared_memory(int kernel, int bytes) {
  check_runtime(cudaFuncSetAttribute(program_kernels()[kernel], cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                "dynamic shared memory");
}

}  // namespace
