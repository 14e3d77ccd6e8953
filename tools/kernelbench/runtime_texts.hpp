// The fixed parts of an exported file: from tools/kernelbench/runtime and, where noted, from the sources of the GPU's
// runner.
#pragma once

#include <string_view>

namespace cudal1::kernelbench::texts {

// C++, in the order of a file, which contains those that it needs. The program's own part follows lanes.
std::string_view common();
std::string_view python_objects();
std::string_view torch_python();
std::string_view product_precision();
std::string_view convolution_chain();  // sandbox/program/operators
std::string_view cudnn_calls();        // sandbox/cuda/runtime, as the next two
std::string_view convolution_plan();
std::string_view convolution_on_gpu();
std::string_view own_operators();
std::string_view cuda_calls();  // sandbox/cuda/runtime
std::string_view kernels();
std::string_view tensor_maps();  // sandbox/cuda/runtime
std::string_view mapped_tensors();
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
std::string_view module();
// Python.
std::string_view model_new();
std::string_view check();
std::string_view evaluate_file();
std::string_view pytorch_calls();  // tools/python, as the next two: check uses them for timing
std::string_view core_turns();
std::string_view host_pace();
std::string_view measuring();
// CUDA: what nvcc lacks besides the dialect's own functions.
std::string_view atomics();

}  // namespace cudal1::kernelbench::texts
