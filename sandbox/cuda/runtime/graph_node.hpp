// One node of a CUDA graph, with the bytes that its pointers are in: the parameters of a kernel, of a library's kernels
// too, and the operands of copies and fills.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "sandbox/cuda/runtime/cuda_calls.hpp"

namespace cudal1 {

class graph_node {
 public:
  explicit graph_node(cudaGraphNode_t handle) : handle_(handle) {
    check_runtime(cudaGraphNodeGetType(handle, &type_), "cudaGraphNodeGetType");
    switch (type_) {
      case cudaGraphNodeTypeKernel:
        read_kernel();
        break;
      case cudaGraphNodeTypeMemcpy:
        check_runtime(cudaGraphMemcpyNodeGetParams(handle, &copy_), "cudaGraphMemcpyNodeGetParams");
        append(&copy_.srcPtr.ptr, sizeof(void*));
        append(&copy_.dstPtr.ptr, sizeof(void*));
        break;
      case cudaGraphNodeTypeMemset:
        check_runtime(cudaGraphMemsetNodeGetParams(handle, &fill_), "cudaGraphMemsetNodeGetParams");
        append(&fill_.dst, sizeof(void*));
        break;
      case cudaGraphNodeTypeGraph:
        throw cannot_rebind("a library's call is a graph within the graph");
      default:
        break;  // events and empty nodes have no operands
    }
  }
  // `parameters_` points into `bytes_`, whose elements stay where they are when a vector is moved.
  graph_node(graph_node&&) = default;
  graph_node& operator=(graph_node&&) = default;
  graph_node(const graph_node&) = delete;
  graph_node& operator=(const graph_node&) = delete;

  // Throws cannot_rebind if the other node does other work; their operands may differ.
  void check_same_work(const graph_node& other) const {
    if (type_ != other.type_) throw cannot_rebind("two captures of the same steps differ");
    if (kernel_.func != other.kernel_.func || kernel_.kern != other.kernel_.kern)
      throw cannot_rebind("two captures of the same steps launch different kernels");
    if (bytes_.size() != other.bytes_.size()) throw cannot_rebind("two captures differ in a kernel");
  }

  std::size_t bytes() const { return bytes_.size(); }
  uintptr_t word_at(std::size_t at) const {
    uintptr_t value = 0;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  void put(std::size_t at, uintptr_t pointer) { std::memcpy(bytes_.data() + at, &pointer, sizeof pointer); }

  // Sets the operands in an instance of the node's graph.
  void set_in(cudaGraphExec_t executable) {
    switch (type_) {
      case cudaGraphNodeTypeKernel:
        return set_kernel(executable);
      case cudaGraphNodeTypeMemcpy:
        std::memcpy(&copy_.srcPtr.ptr, bytes_.data(), sizeof(void*));
        std::memcpy(&copy_.dstPtr.ptr, bytes_.data() + sizeof(void*), sizeof(void*));
        return check_runtime(cudaGraphExecMemcpyNodeSetParams(executable, handle_, &copy_),
                             "cudaGraphExecMemcpyNodeSetParams");
      case cudaGraphNodeTypeMemset:
        std::memcpy(&fill_.dst, bytes_.data(), sizeof(void*));
        return check_runtime(cudaGraphExecMemsetNodeSetParams(executable, handle_, &fill_),
                             "cudaGraphExecMemsetNodeSetParams");
      default:
        return;
    }
  }

 private:
  void append(const void* from, std::size_t count) {
    const auto* first = static_cast<const char*>(from);
    bytes_.insert(bytes_.end(), first, first + count);
  }

  void read_kernel() {
    const auto& driver = graph_driver::get();
    check_driver(driver.kernel_params(handle_, &kernel_), "cuGraphKernelNodeGetParams");
    if (kernel_.kernelParams == nullptr && kernel_.extra != nullptr) return read_buffer();
    std::vector<std::size_t> offsets;
    for (std::size_t i = 0; kernel_.kernelParams != nullptr; ++i) {
      std::size_t offset = 0, size = 0;
      const CUresult more = kernel_.func != nullptr ? driver.function_parameter(kernel_.func, i, &offset, &size)
                                                    : driver.kernel_parameter(kernel_.kern, i, &offset, &size);
      if (more != CUDA_SUCCESS) break;  // past the last one
      // Aligned, so that every pointer of the kernel lies at a multiple of its size.
      bytes_.resize((bytes_.size() + 15) / 16 * 16);
      offsets.push_back(bytes_.size());
      append(kernel_.kernelParams[i], size);
    }
    for (const std::size_t offset : offsets)
      parameters_.push_back(bytes_.data() + offset);
  }

  // A kernel whose parameters are one buffer, as cuBLAS passes those of its products of half types on Hopper.
  void read_buffer() {
    const void* buffer = nullptr;
    std::size_t size = 0;
    for (void** option = kernel_.extra; *option != CU_LAUNCH_PARAM_END; option += 2) {
      if (*option == CU_LAUNCH_PARAM_BUFFER_POINTER)
        buffer = option[1];
      else if (*option == CU_LAUNCH_PARAM_BUFFER_SIZE)
        size = *static_cast<const std::size_t*>(option[1]);
      else
        throw cannot_rebind("a kernel of a library passes its parameters in an unknown way");
    }
    append(buffer, size);
  }

  void set_kernel(cudaGraphExec_t executable) {
    std::size_t size = bytes_.size();
    void* buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes_.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                      CU_LAUNCH_PARAM_END};
    const bool as_buffer = parameters_.empty() && size > 0;
    kernel_.kernelParams = as_buffer ? nullptr : parameters_.data();
    kernel_.extra = as_buffer ? buffer : nullptr;
    check_driver(graph_driver::get().set_kernel(executable, handle_, &kernel_), "cuGraphExecKernelNodeSetParams");
    kernel_.extra = nullptr;
  }

  cudaGraphNode_t handle_ = nullptr;
  cudaGraphNodeType type_{};
  CUDA_KERNEL_NODE_PARAMS kernel_{};
  cudaMemcpy3DParms copy_{};
  cudaMemsetParams fill_{};
  std::vector<char> bytes_;        // all parameters of a kernel; source and target of a copy; target of a fill
  std::vector<void*> parameters_;  // of a kernel, in `bytes_`; none of one that takes all of them as one buffer
};

}  // namespace cudal1
