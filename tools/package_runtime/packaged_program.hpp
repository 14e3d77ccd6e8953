// The programs of a package of `cudal1 export --format torch` in a process of Python: what their plans say, run by
// PyTorch's own operators and allocator and by loaded kernels. Plans are written by
// tools/cli/commands/package_plan.cpp. Errors are exceptions, which PyTorch makes errors of Python.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace cudal1::package {

// What launches kernels on the processor: the functions of libcudal1_cpu_kernels.so (sandbox/cpu/runtime).
struct processor_kernels {
  void* library = nullptr;
  const void* (*find)(void*, const char*, char*, int) = nullptr;
  int (*launch)(void*, const void*, const int64_t*, int, void* const*, int, char*, int) = nullptr;
  int (*map)(void*, int, const int64_t*, const int64_t*, const int64_t*, int64_t, int64_t, const void*, void*, char*,
             int) = nullptr;
};

struct program_state;
struct graph_state;

// One program on one device. Thread-safe: calls of one program are one after the other, and what they enqueue on a GPU
// is on the stream that is current in PyTorch.
class packaged_program {
 public:
  // `plan`: JSON. `cubins`: of its kernels, for the current GPU `device`; `device` -1 is the processor. Throws if the
  // plan names an operator or a kernel that is not there.
  packaged_program(const std::string& plan, const std::vector<std::string>& cubins, int device,
                   processor_kernels processor);
  ~packaged_program();
  packaged_program(const packaged_program&) = delete;
  packaged_program& operator=(const packaged_program&) = delete;

  // What the set-up steps make of the weights, and calls read.
  std::vector<at::Tensor> set_up(const std::vector<at::Tensor>& weights);
  // `kept`: what set_up() gave. The outputs are the caller's: none shares memory with another tensor.
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights,
                               const std::vector<at::Tensor>& kept);

  std::atomic<int64_t> quick_calls = 0;  // of modules, by quick_call.cpp

 private:
  friend class packaged_graph;
  std::shared_ptr<program_state> state_;
};

// A program with one set of weights as one CUDA graph, captured in the first call. Inside of a caller's capture, and
// where it cannot be one graph, the steps are launched one by one.
class packaged_graph {
 public:
  packaged_graph(const packaged_program& program, const std::vector<at::Tensor>& weights,
                 const std::vector<at::Tensor>& kept);
  ~packaged_graph();
  packaged_graph(const packaged_graph&) = delete;
  packaged_graph& operator=(const packaged_graph&) = delete;

  std::vector<at::Tensor> call(const std::vector<at::Tensor>& inputs);
  // How it runs differently from what was measured, one sentence each.
  std::vector<std::string> notes() const;

 private:
  std::unique_ptr<graph_state> state_;
};

}  // namespace cudal1::package
