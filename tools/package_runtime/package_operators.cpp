// The library libcudal1_package_runtime.so of packages: programs and graphs of them as operators of PyTorch, which
// tools/python/torch_package/runtime/native.py calls. A program or a graph is a number, until it is dropped.
#include <torch/library.h>

#include "tools/package_runtime/package_numbers.hpp"

namespace cudal1::package {

numbered<packaged_program>& programs() {
  static auto* const all = new numbered<packaged_program>;
  return *all;
}
numbered<packaged_graph>& graphs() {
  static auto* const all = new numbered<packaged_graph>;
  return *all;
}

namespace {

template <class F>
F function_at(int64_t address) {
  return reinterpret_cast<F>(static_cast<uintptr_t>(address));  // NOLINT(performance-no-int-to-ptr): Python's number
}

// `cubins`: bytes. `processor`: the addresses of a library's handle and of the functions find, launch and map, or none.
int64_t load(const std::string& plan, const std::vector<at::Tensor>& cubins, int64_t device,
             const std::vector<int64_t>& processor) {
  std::vector<std::string> loaded;
  for (const auto& bytes : cubins)
    loaded.emplace_back(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  processor_kernels kernels;
  if (processor.size() == 4)
    kernels = {function_at<void*>(processor[0]), function_at<decltype(kernels.find)>(processor[1]),
               function_at<decltype(kernels.launch)>(processor[2]), function_at<decltype(kernels.map)>(processor[3])};
  return programs().add(std::make_shared<packaged_program>(plan, loaded, static_cast<int>(device), kernels));
}

std::vector<at::Tensor> set_up(int64_t program, const std::vector<at::Tensor>& weights) {
  return programs().at(program)->set_up(weights);
}

std::vector<at::Tensor> call(int64_t program, const std::vector<at::Tensor>& inputs,
                             const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& kept) {
  return programs().at(program)->call(inputs, weights, kept);
}

int64_t graph(int64_t program, const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& kept) {
  return graphs().add(std::make_shared<packaged_graph>(*programs().at(program), weights, kept));
}

std::vector<at::Tensor> replay(int64_t graph, const std::vector<at::Tensor>& inputs) {
  return graphs().at(graph)->call(inputs);
}

std::vector<std::string> notes(int64_t graph) {
  return graphs().at(graph)->notes();
}

TORCH_LIBRARY(cudal1_package, m) {
  m.def("load(str plan, Tensor[] cubins, int device, int[] processor) -> int", &load);
  m.def("set_up(int program, Tensor[] weights) -> Tensor[]", &set_up);
  m.def("call(int program, Tensor[] inputs, Tensor[] weights, Tensor[] kept) -> Tensor[]", &call);
  m.def("graph(int program, Tensor[] weights, Tensor[] kept) -> int", &graph);
  m.def("replay(int graph, Tensor[] inputs) -> Tensor[]", &replay);
  m.def("notes(int graph) -> str[]", &notes);
  m.def("quick_calls(int program) -> int", [](int64_t program) { return programs().at(program)->quick_calls.load(); });
  m.def("drop_program(int program) -> ()", [](int64_t program) { programs().drop(program); });
  m.def("drop_graph(int graph) -> ()", [](int64_t graph) { graphs().drop(graph); });
}

}  // namespace
}  // namespace cudal1::package
