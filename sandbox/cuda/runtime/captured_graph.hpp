// A captured CUDA graph that is not instantiated yet, owned.
#pragma once

#include <exception>
#include <utility>
#include <vector>

#include "sandbox/cuda/runtime/cuda_calls.hpp"

namespace cudal1 {

class captured_graph {
 public:
  captured_graph() = default;
  captured_graph(captured_graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  captured_graph& operator=(captured_graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }
  ~captured_graph() {
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }
  cudaGraph_t get() const { return graph_; }

  // Captures what `work` enqueues on the stream, and on streams that it joins to it by events. Exceptions of `work` are
  // rethrown after the capture has ended.
  template <class Work>
  static captured_graph of(cudaStream_t stream, const Work& work) {
    check_runtime(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    std::exception_ptr problem;
    try {
      work();
    } catch (...) {
      problem = std::current_exception();
    }
    captured_graph result;
    const auto ended = cudaStreamEndCapture(stream, &result.graph_);
    if (problem) {
      (void)cudaGetLastError();
      std::rethrow_exception(problem);
    }
    check_runtime(ended, "cudaStreamEndCapture");
    return result;
  }

  std::vector<cudaGraphNode_t> nodes() const {
    std::size_t count = 0;
    check_runtime(cudaGraphGetNodes(graph_, nullptr, &count), "cudaGraphGetNodes");
    std::vector<cudaGraphNode_t> all(count);
    if (count > 0) check_runtime(cudaGraphGetNodes(graph_, all.data(), &count), "cudaGraphGetNodes");
    return all;
  }

 private:
  cudaGraph_t graph_ = nullptr;
};

}  // namespace cudal1
