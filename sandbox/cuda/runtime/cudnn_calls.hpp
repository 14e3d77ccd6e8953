// The part of cuDNN's backend API that convolution_plan.hpp needs, from the libcudnn.so.9 that PyTorch has loaded:
// found by name, so that neither its headers nor its library are needed to build. Exported KernelBench files contain
// the text of this header (tools/kernelbench): C++17 that needs only the standard library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>

namespace cudal1 {

// Numbers of cudnn_graph_v9.h, where they are named in capitals: CUDNN_BACKEND_TENSOR_DESCRIPTOR.
namespace cudnn_code {
// cudnnBackendDescriptorType_t
inline constexpr int pointwise_descriptor = 0, convolution_descriptor = 1, engine_descriptor = 2,
                     engine_config_descriptor = 3, heuristics_descriptor = 4, plan_descriptor = 5,
                     knob_choice_descriptor = 7, convolution_operation = 10, convolution_data_operation = 12,
                     pointwise_operation = 13, graph_descriptor = 15, variant_pack_descriptor = 16,
                     tensor_descriptor = 17;
// cudnnBackendAttributeType_t
inline constexpr int handle_type = 0, data_type_type = 1, boolean_type = 2, int64_type = 3, float_type = 4,
                     double_type = 5, pointer_type = 6, convolution_mode_type = 7, heuristics_mode_type = 8,
                     knob_type_type = 9, nan_propagation_type = 10, numerical_note_type = 11, pointwise_mode_type = 14,
                     descriptor_type = 15;
// cudnnBackendAttributeName_t
inline constexpr int pointwise_mode = 0, pointwise_precision = 1, pointwise_nan_propagation = 2, relu_lower_clip = 3,
                     relu_upper_clip = 4, relu_slope = 5, elu_alpha = 6, softplus_beta = 7, swish_beta = 8;
inline constexpr int convolution_precision = 100, convolution_mode = 101, convolution_dilations = 102,
                     convolution_strides = 103, convolution_post_paddings = 104, convolution_pre_paddings = 105,
                     convolution_dimensions = 106;
inline constexpr int heuristics_mode = 200, heuristics_graph = 201, heuristics_results = 202;
inline constexpr int config_engine = 300, config_knobs = 302;
inline constexpr int plan_handle = 400, plan_config = 401, plan_workspace_bytes = 402;
inline constexpr int knob_type = 600, knob_value = 601;
inline constexpr int forward_alpha = 700, forward_beta = 701, forward_convolution = 702, forward_w = 703,
                     forward_x = 704, forward_y = 705;
inline constexpr int data_alpha = 706, data_beta = 707, data_convolution = 708, data_w = 709, data_dx = 710,
                     data_dy = 711;
inline constexpr int pointwise_descriptor_of = 750, pointwise_x = 751, pointwise_b = 752, pointwise_y = 753;
inline constexpr int graph_handle = 800, graph_operations = 801;
inline constexpr int tensor_alignment = 900, tensor_data_type = 901, tensor_dimensions = 902, tensor_strides = 903,
                     tensor_id = 906, tensor_is_virtual = 907, tensor_is_by_value = 908;
inline constexpr int pack_ids = 1000, pack_pointers = 1001, pack_workspace = 1003;
inline constexpr int engine_index = 1301, engine_notes = 1303;
// cudnnDataType_t, cudnnConvolutionMode_t, cudnnBackendHeurMode_t, cudnnBackendNumericalNote_t, cudnnNanPropagation_t
inline constexpr int of_float = 0, of_half = 2, of_bfloat16 = 9;
inline constexpr int cross_correlation = 1;
inline constexpr int heuristics_fallback = 2, heuristics_a = 3;
inline constexpr int uses_tensor_cores = 0, converts_inputs_down = 1, is_nondeterministic = 4;
inline constexpr int propagates_nan = 1;
// cudnnPointwiseMode_t
inline constexpr int add = 0, multiply = 1, relu = 100, tanh = 101, sigmoid = 102, elu = 103, gelu = 104,
                     softplus = 105, swish = 106, gelu_tanh = 107;
}  // namespace cudnn_code

// A call that failed.
class cudnn_failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct cudnn_functions {
  using descriptor = void*;
  std::size_t (*version)() = nullptr;
  const char* (*error_text)(int status) = nullptr;
  int (*create)(int kind, descriptor* made) = nullptr;
  int (*destroy)(descriptor) = nullptr;
  int (*finalize)(descriptor) = nullptr;
  int (*set)(descriptor, int attribute, int type, int64_t count, const void* values) = nullptr;
  int (*get)(descriptor, int attribute, int type, int64_t room, int64_t* count, void* values) = nullptr;
  int (*execute)(void* handle, descriptor plan, descriptor pack) = nullptr;

  // Found once. Throws cudnn_failure where there is no such library.
  static const cudnn_functions& find() {
    static const cudnn_functions all = [] {
      void* const library = ::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) throw cudnn_failure(std::string("cuDNN 9 is not there: ") + ::dlerror());
      cudnn_functions f;
      find(library, "cudnnGetVersion", f.version);
      find(library, "cudnnGetErrorString", f.error_text);
      find(library, "cudnnBackendCreateDescriptor", f.create);
      find(library, "cudnnBackendDestroyDescriptor", f.destroy);
      find(library, "cudnnBackendFinalize", f.finalize);
      find(library, "cudnnBackendSetAttribute", f.set);
      find(library, "cudnnBackendGetAttribute", f.get);
      find(library, "cudnnBackendExecute", f.execute);
      return f;
    }();
    return all;
  }

  std::string version_text() const {  // "9.19.0"
    const std::size_t number = version();
    return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
           std::to_string(number % 100);
  }

  void check(int status, const char* call) const {
    if (status != 0) throw cudnn_failure(std::string(call) + ": " + error_text(status));
  }

 private:
  template <class Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr) throw cudnn_failure(std::string("this cuDNN has no ") + name);
  }
};

// A descriptor of the backend API, owned.
class cudnn_descriptor {
 public:
  cudnn_descriptor() = default;
  explicit cudnn_descriptor(int kind) {
    const auto& api = cudnn_functions::find();
    api.check(api.create(kind, &it_), "cudnnBackendCreateDescriptor");
  }
  cudnn_descriptor(cudnn_descriptor&& other) noexcept : it_(std::exchange(other.it_, nullptr)) {}
  cudnn_descriptor& operator=(cudnn_descriptor&& other) noexcept {
    std::swap(it_, other.it_);
    return *this;
  }
  ~cudnn_descriptor() {
    if (it_ != nullptr) (void)cudnn_functions::find().destroy(it_);
  }
  void* get() const { return it_; }

  void set(int attribute, int type, int64_t count, const void* values) {
    const auto& api = cudnn_functions::find();
    api.check(api.set(it_, attribute, type, count, values), "cudnnBackendSetAttribute");
  }
  void set_code(int attribute, int type, int value) { set(attribute, type, 1, &value); }
  void set_flag(int attribute, bool value) { set(attribute, cudnn_code::boolean_type, 1, &value); }
  void set_integer(int attribute, int64_t value) { set(attribute, cudnn_code::int64_type, 1, &value); }
  void set_float(int attribute, float value) { set(attribute, cudnn_code::float_type, 1, &value); }
  void set_real(int attribute, double value) { set(attribute, cudnn_code::double_type, 1, &value); }
  void set_integers(int attribute, const std::vector<int64_t>& values) {
    set(attribute, cudnn_code::int64_type, static_cast<int64_t>(values.size()), values.data());
  }
  void set_descriptor(int attribute, const cudnn_descriptor& value) {
    void* const other = value.it_;
    set(attribute, cudnn_code::descriptor_type, 1, &other);
  }
  void set_handle(int attribute, void* handle) { set(attribute, cudnn_code::handle_type, 1, &handle); }
  void finalize() {
    const auto& api = cudnn_functions::find();
    api.check(api.finalize(it_), "cudnnBackendFinalize");
  }

  // How many values there are, of which the first `room` are written.
  int64_t get(int attribute, int type, int64_t room, void* values) const {
    const auto& api = cudnn_functions::find();
    int64_t count = 0;
    api.check(api.get(it_, attribute, type, room, &count, values), "cudnnBackendGetAttribute");
    return count;
  }
  int64_t count(int attribute) const { return get(attribute, cudnn_code::descriptor_type, 0, nullptr); }
  // Descriptors of that kind, which the attribute has: the first `room` ones.
  std::vector<cudnn_descriptor> get_descriptors(int attribute, int kind, int64_t room) const {
    std::vector<cudnn_descriptor> out(static_cast<std::size_t>(room));
    std::vector<void*> pointers;
    for (auto& each : out) {
      each = cudnn_descriptor(kind);
      pointers.push_back(each.get());
    }
    if (out.empty()) return out;
    const int64_t found =
        get(attribute, cudnn_code::descriptor_type, static_cast<int64_t>(pointers.size()), pointers.data());
    out.resize(std::min(out.size(), static_cast<std::size_t>(found)));
    return out;
  }

 private:
  void* it_ = nullptr;
};

}  // namespace cudal1
