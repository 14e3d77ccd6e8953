// The fixed parts of an exported file: from tools/kernelbench/runtime and, where it is said, from the sources of the
// GPU's runner.
#pragma once

#include <string_view>

namespace cudal1::kernelbench::texts {

// C++, in the order in which a file has what it needs of them. The program's own part is behind lanes.
std::string_view common();
std::string_view cuda_calls();  // sandbox/cuda/runtime
std::string_view kernels();
std::string_view apart_memory();
std::string_view lane_streams();  // sandbox/cuda/runtime
std::string_view lanes();
std::string_view run();
std::string_view captured_graph();  // sandbox/cuda/runtime, as the next three
std::string_view graph_node();
std::string_view rebound_graph();
std::string_view graph_bindings();
std::string_view graph_runner();
std::string_view program();
// Python.
std::string_view model_new();
std::string_view check();
std::string_view pytorch_calls();  // tools/python, as the next two: what check times with
std::string_view host_pace();
std::string_view measuring();
// CUDA: what NVRTC is given in front of a program's kernels (sandbox/cuda/compiler), and what nvcc lacks beside it.
std::string_view prologue();
std::string_view atomics();

}  // namespace cudal1::kernelbench::texts
