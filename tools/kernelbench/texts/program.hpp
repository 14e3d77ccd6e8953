namespace {

// The program with the weights of one module. Not for several threads at once (Python's lock sees to that).
class program {
 public:
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights) {
    const auto& wanted = input_types();
    TORCH_CHECK(inputs.size() == wanted.size(), "forward was given ", inputs.size(),
                " tensors, and this program was made for ", wanted.size());
    const at::Device device = !inputs.empty() ? inputs[0].device() : weights.at(0).device();
    TORCH_CHECK(!needs_gpu || device.is_cuda(),
                "this program has CUDA kernels; move the model and its inputs to a GPU");
    const c10::OptionalDeviceGuard on(device);
    const plain_mode mode;
    bind(weights, device);
    std::vector<at::Tensor> given;
    given.reserve(inputs.size());
    for (const auto i : c10::irange(inputs.size()))
      given.push_back(as_declared(inputs[i], wanted[i], "input", device, input_alignment));
#ifdef PROGRAM_GRAPH
    if (auto outputs = graph_.call(values_, given)) return std::move(*outputs);
#endif
    return run(values_, given);
  }

  // What it does otherwise than the program asks for, one sentence each.
  std::vector<std::string> notes() const {
#ifdef PROGRAM_GRAPH
    return graph_.notes();
#else
    return {};
#endif
  }

 private:
  struct bound_weight {
    at::Tensor tensor;  // keeps the memory, so that no other tensor can come to lie there
    const void* data = nullptr;
    uint32_t version = 0;
  };

  static uint32_t version_of(const at::Tensor& t) {
    return t.is_inference() ? 0 : static_cast<uint32_t>(t._version());
  }

  // Weights are looked at in each call. One at another address is bound anew; where setup steps made something of the
  // weights, or one had to be copied, a new version of any is enough. (PyTorch counts versions of in-place changes; a
  // change through `.data` is not counted.)
  void bind(const std::vector<at::Tensor>& weights, at::Device device) {
    bool same = bound_ && device == values_.device && weights.size() == weights_.size();
    for (std::size_t i = 0; same && i < weights.size(); ++i)
      same = weights[i].const_data_ptr() == weights_[i].data &&
             (!depends_on_values_ || version_of(weights[i]) == weights_[i].version);
    if (same) return;
    const auto& wanted = weight_types();
    TORCH_CHECK(weights.size() == wanted.size(), "the program has ", wanted.size(), " weights, and ", weights.size(),
                " were given");
    bound_ = false;
#ifdef PROGRAM_GRAPH
    graph_.drop();
#endif
    values_ = values();
    values_.device = device;
    weights_.clear();
    depends_on_values_ = has_setup;
    std::vector<at::Tensor> bound;
    for (const auto i : c10::irange(weights.size())) {
      weights_.push_back({weights[i].detach(), weights[i].const_data_ptr(), version_of(weights[i])});
      bound.push_back(as_declared(weights[i], wanted[i], "weight", device, weight_alignment));
      if (bound.back().const_data_ptr() != weights[i].const_data_ptr()) depends_on_values_ = true;
    }
    prepare(values_);
    set_weights(values_, bound);
    run_setup(values_);
    bound_ = true;
  }

  values values_;
  std::vector<bound_weight> weights_;
  bool bound_ = false, depends_on_values_ = false;
#ifdef PROGRAM_GRAPH
  graph_runner graph_;
#endif
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  pybind11::class_<program>(m, "Program")
      .def(pybind11::init<>())
      .def("__call__", &program::call)
      .def("notes", &program::notes);
}
