// CUDA's runtime and driver with exceptions as errors, for code that captures and replays graphs. Exported KernelBench
// files contain the text of this header, tensor_maps.hpp, graph_node.hpp, captured_graph.hpp, rebound_graph.hpp and
// lane_streams.hpp (tools/kernelbench): C++17 that needs only the standard library, CUDA's headers and PyTorch's.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace cudal1 {

// A call that failed: what() is the call and the reason.
class cuda_failure : public std::runtime_error {
 public:
  cuda_failure(const char* call, const std::string& reason)
      : std::runtime_error(call + (": " + reason)), reason_(reason) {}
  const std::string& reason() const { return reason_; }  // "text (name)"

 private:
  std::string reason_;
};

// Two captures that are not the same work, or work whose pointers cannot be set; without re-binding it may still run.
class cannot_rebind : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void check_runtime(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // clears the error, so that later calls do not report it again
  throw cuda_failure(call, std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")");
}

struct launch_options {
  bool cooperative = false;   // all blocks run at the same time
  bool programmatic = false;  // it may begin before the kernel ahead of it in the stream has ended
};

// cudaLaunchKernel with options.
inline cudaError_t launch_kernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                                 cudaStream_t stream, launch_options options) {
  if (!options.cooperative && !options.programmatic)
    return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  if (options.cooperative) {
    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[config.numAttrs++].val.cooperative = 1;
  }
  if (options.programmatic) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

// An event that orders streams and records no time.
class order_event {
 public:
  order_event() {
    check_runtime(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  order_event(order_event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  order_event& operator=(order_event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~order_event() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }
  void record(cudaStream_t stream) const { check_runtime(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void hold_back(cudaStream_t stream) const {
    check_runtime(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// A function of the driver, looked up through the runtime, so libcuda is not linked. Null, with the reason in `why`, if
// the driver lacks it or is older than CUDA 12.4.
inline void* find_driver_function(const char* name, std::string& why) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  const auto status = cudaGetDriverEntryPointByVersion(name, &address, 12040, cudaEnableDefault, &found);
#else
  const auto status = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif
  if (status == cudaSuccess && found == cudaDriverEntryPointSuccess && address != nullptr) return address;
  (void)cudaGetLastError();
  why = std::string("the NVIDIA driver offers no ") + name + ": " +
        (status != cudaSuccess ? cudaGetErrorString(status) : "not found");
  return nullptr;
}

// Functions for kernel nodes that only the driver has.
struct graph_driver {
  decltype(&::cuGetErrorName) error_name = nullptr;
  decltype(&::cuGraphKernelNodeGetParams) kernel_params = nullptr;
  decltype(&::cuGraphExecKernelNodeSetParams) set_kernel = nullptr;
  decltype(&::cuFuncGetParamInfo) function_parameter = nullptr;
  decltype(&::cuKernelGetParamInfo) kernel_parameter = nullptr;

  // Looked up once. Throws cannot_rebind if the driver lacks one.
  static const graph_driver& get() {
    static const graph_driver all = [] {
      graph_driver d;
      find("cuGetErrorName", d.error_name);
      find("cuGraphKernelNodeGetParams", d.kernel_params);
      find("cuGraphExecKernelNodeSetParams", d.set_kernel);
      find("cuFuncGetParamInfo", d.function_parameter);
      find("cuKernelGetParamInfo", d.kernel_parameter);
      return d;
    }();
    return all;
  }

 private:
  template <class F>
  static void find(const char* name, F& function) {
    std::string why;
    function = reinterpret_cast<F>(find_driver_function(name, why));
    if (function == nullptr) throw cannot_rebind(why + "; it should be one for CUDA 12.4 or newer");
  }
};

inline void check_driver(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  const char* name = nullptr;
  (void)graph_driver::get().error_name(status, &name);
  throw cuda_failure(call, name != nullptr ? name : "an unknown error of the driver");
}

}  // namespace cudal1
