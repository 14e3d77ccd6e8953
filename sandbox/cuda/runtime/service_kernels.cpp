#include "sandbox/cuda/runtime/service_kernels.hpp"

#include <vector>

#include <nvrtc.h>

namespace cudal1 {
namespace {

expected<void> nvrtc_check(nvrtcResult status, const char* call) {
  if (status == NVRTC_SUCCESS) return {};
  return fail(errc::infrastructure, "{}: {}", call, nvrtcGetErrorString(status));
}

struct destroy_program {
  void operator()(nvrtcProgram* p) const { nvrtcDestroyProgram(p); }
};

expected<std::string> architecture_of(int device) {
  int major = 0, minor = 0;
  CUDAL1_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  CUDAL1_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return fmt::format("--gpu-architecture=sm_{}{}", major, minor);
}

}  // namespace

expected<std::string> service_library::compiled(std::string_view source, int device) {
  CUDAL1_TRY(const std::string architecture, architecture_of(device));
  nvrtcProgram made = nullptr;
  CUDAL1_CHECK(nvrtc_check(
      nvrtcCreateProgram(&made, std::string(source).c_str(), "service_kernels.cu", 0, nullptr, nullptr), "NVRTC"));
  const std::unique_ptr<nvrtcProgram, destroy_program> guard(&made);
  const char* options[] = {architecture.c_str(), "--std=c++17"};
  if (nvrtcCompileProgram(made, 2, options) != NVRTC_SUCCESS) {
    std::size_t bytes = 0;
    CUDAL1_CHECK(nvrtc_check(nvrtcGetProgramLogSize(made, &bytes), "nvrtcGetProgramLogSize"));
    std::string log(bytes, '\0');
    CUDAL1_CHECK(nvrtc_check(nvrtcGetProgramLog(made, log.data()), "nvrtcGetProgramLog"));
    return fail(errc::compile_failed, "cudal1's own kernels do not compile: {}", log);
  }
  std::size_t bytes = 0;
  CUDAL1_CHECK(nvrtc_check(nvrtcGetCUBINSize(made, &bytes), "nvrtcGetCUBINSize"));
  std::string cubin(bytes, '\0');
  CUDAL1_CHECK(nvrtc_check(nvrtcGetCUBIN(made, cubin.data()), "nvrtcGetCUBIN"));
  return cubin;
}

expected<std::unique_ptr<service_library>> service_library::compile(std::string_view source, int device) {
  CUDAL1_TRY(const std::string cubin, compiled(source, device));
  return load(cubin);
}

expected<std::unique_ptr<service_library>> service_library::load(const std::string& cubin) {
  std::unique_ptr<service_library> result(new service_library());
  CUDAL1_CUDA(cudaLibraryLoadData(&result->library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  CUDAL1_CUDA(cudaLibraryGetKernelCount(&count, result->library_));
  std::vector<cudaKernel_t> kernels(count);
  CUDAL1_CUDA(cudaLibraryEnumerateKernels(kernels.data(), count, result->library_));
  for (const cudaKernel_t kernel : kernels) {
    const char* name = nullptr;
    CUDAL1_CUDA(cudaFuncGetName(&name, kernel));
    result->kernels_.emplace(name, kernel);
  }
  return result;
}

service_library::~service_library() {
  if (library_ != nullptr) (void)cudaLibraryUnload(library_);
}

expected<void> service_library::launch(const std::string& kernel, dim3 grid, dim3 block, void** arguments,
                                       cudaStream_t stream, int shared_bytes, kernel_start start) const {
  const auto found = kernels_.find(kernel);
  if (found == kernels_.end()) return fail(errc::infrastructure, "there is no service kernel {}", kernel);
  if (shared_bytes > 0)
    CUDAL1_CUDA(cudaFuncSetAttribute(found->second, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = start == kernel_start::waits_itself ? 1 : 0;
  return cuda_check(cudaLaunchKernelExC(&config, found->second, arguments), kernel.c_str());
}

}  // namespace cudal1
