#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

namespace {

// The program with the weights of one module. Not thread-safe; Python's global interpreter lock protects it.
class program {
 public:
  // `weights`: for each, the dictionary that holds it and its key there.
  explicit program(const std::vector<std::pair<pybind11::dict, pybind11::str>>& weights) {
    if (weights.size() != weight_types().size())
      fail("the program has " + std::to_string(weight_types().size()) + " weights, and " +
           std::to_string(weights.size()) + " were given");
    for (const auto& [held, key] : weights)
      weights_.push_back({held, key});
  }

  // Handles any call. `arguments`: the tuple that contains the tensors, none of them nested, so that the next call of
  // the same form is quick; None for a call of any other form.
  pybind11::object call(const std::vector<at::Tensor>& inputs, const pybind11::object& arguments) {
    form_.reset();
    const auto& wanted = input_types();
    if (inputs.size() != wanted.size())
      fail("forward was given " + std::to_string(inputs.size()) + " tensors, and this program was made for " +
           std::to_string(wanted.size()));
    const auto weights = current_weights();
    const at::Device device = !inputs.empty() ? inputs[0].device() : weights.at(0).device();
    if (needs_gpu && !device.is_cuda()) fail("this program has CUDA kernels; move the model and its inputs to a GPU");
    const c10::OptionalDeviceGuard on(device);
    const plain_mode mode;
    const emptied at_end{*this};
    bind(weights, device);
    for (const auto i : c10::irange(inputs.size()))
      given_.push_back(
          as_declared(with_declared_type(inputs[i], wanted[i]), wanted[i], "input", device, input_alignment));
    auto outputs = pybind11::reinterpret_steal<pybind11::object>(outputs_of_given());
    if (!arguments.is_none()) remember(arguments);
    return outputs;
  }

  // Handles a call whose arguments have the form of the last one and whose weights are where they were, without lists,
  // casts and guards that change nothing. Returns Python's None, and does nothing, for any other call.
  PyObject* quick(PyObject* arguments) {
    if (!is_known(arguments)) Py_RETURN_NONE;
    c10::OptionalDeviceGuard on;
#ifdef PROGRAM_CUDA
    if (c10::cuda::current_device() != values_.device.index())
#endif
      on.reset_device(values_.device);
    const plain_mode mode;
    const emptied at_end{*this};
    const auto& wanted = input_types();
    for (const auto i : c10::irange(form_->size()))
      if (const auto& plain = (*form_)[i]; !plain)
        given_.push_back(as_declared(THPVariable_Unpack(PyTuple_GET_ITEM(arguments, i)), wanted[given_.size()], "input",
                                     values_.device, input_alignment));
    return outputs_of_given();
  }

  // How it runs differently from what the program requests, one sentence each.
  std::vector<std::string> notes() const {
#ifdef PROGRAM_GRAPH
    return graph_.notes();
#else
    return {};
#endif
  }

 private:
  struct weight {
    pybind11::dict held;
    pybind11::str key;
    pybind11::object found;  // what was there when the weights were bound
    at::Tensor tensor;       // keeps the memory, so that no other tensor can get the same address
    const void* data = nullptr;
    uint32_t version = 0;
  };
  // Empties the lists after a call; their memory is kept.
  struct emptied {
    program& p;
    ~emptied() {
      p.given_.clear();
      p.outputs_.clear();
    }
  };

  static uint32_t version_of(const at::Tensor& t) {
    return t.is_inference() ? 0 : static_cast<uint32_t>(t._version());
  }

  std::vector<at::Tensor> current_weights() const {
    std::vector<at::Tensor> all;
    for (const auto i : c10::irange(weights_.size())) {
      PyObject* now = PyDict_GetItemWithError(weights_[i].held.ptr(), weights_[i].key.ptr());
      if (now == nullptr || !THPVariable_Check(now))
        fail(std::string("the module has no tensor for the weight ") + weight_types()[i].name + " any more");
      all.push_back(THPVariable_Unpack(now));
    }
    return all;
  }

  bool is_as_bound(const weight& w, const at::Tensor& now) const {
    return now.const_data_ptr() == w.data && (!depends_on_values_ || version_of(now) == w.version);
  }

  // Weights are checked in each call. They are bound again if one has another address or, if setup steps read the
  // weights or one had to be copied, if any has a new version. (PyTorch counts in-place changes as versions, but not
  // changes through `.data`.)
  void bind(const std::vector<at::Tensor>& weights, at::Device device) {
    bool same = bound_ && device == values_.device;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights_[i].found = weights_[i].held[weights_[i].key];
      same = same && is_as_bound(weights_[i], weights[i]);
    }
    if (same) return;
    const auto& wanted = weight_types();
    bound_ = false;
#ifdef PROGRAM_GRAPH
    graph_.drop();
#endif
    values_ = values();
    values_.device = device;
    depends_on_values_ = has_setup;
    std::vector<at::Tensor> bound;
    for (const auto i : c10::irange(weights.size())) {
      auto& w = weights_[i];
      w.tensor = weights[i].detach();
      w.data = weights[i].const_data_ptr();
      w.version = version_of(weights[i]);
      bound.push_back(as_declared(weights[i], wanted[i], "weight", device, weight_alignment));
      if (bound.back().const_data_ptr() != w.data) depends_on_values_ = true;
    }
    prepare(values_);
    set_weights(values_, bound);
    run_setup(values_);
    bound_ = true;
  }

  void remember(const pybind11::object& arguments) {
    std::vector<pybind11::object> form;
    for (const pybind11::handle a : pybind11::tuple(arguments))
      form.push_back(THPVariable_Check(a.ptr()) ? pybind11::object()
                                                : pybind11::reinterpret_borrow<pybind11::object>(a));
    form_ = std::move(form);
  }

  // True if quick() can handle the call.
  bool is_known(PyObject* arguments) const {
    if (!form_ || !PyTuple_CheckExact(arguments) ||
        static_cast<std::size_t>(PyTuple_GET_SIZE(arguments)) != form_->size())
      return false;
    std::size_t tensors = 0;
    for (const auto i : c10::irange(form_->size())) {
      PyObject* given = PyTuple_GET_ITEM(arguments, i);
      const auto& plain = (*form_)[i];
      if (!plain) {
        if (!THPVariable_CheckExact(given) || THPVariable_Unpack(given).device() != values_.device) return false;
        if (THPVariable_Unpack(given).scalar_type() != input_types()[tensors++].dtype) return false;
      } else if (given != plain.ptr()) {
        if (Py_TYPE(given) != Py_TYPE(plain.ptr())) return false;
        const int same = PyObject_RichCompareBool(given, plain.ptr(), Py_EQ);
        if (same < 0) throw pybind11::error_already_set();
        if (same == 0) return false;
      }
    }
    return std::all_of(weights_.begin(), weights_.end(), [this](const weight& w) {
      PyObject* now = PyDict_GetItemWithError(w.held.ptr(), w.key.ptr());
      return now == w.found.ptr() && is_as_bound(w, THPVariable_Unpack(now));
    });
  }

  // A new reference: a tensor, or a tuple of several.
  PyObject* outputs_of_given() {
#ifdef PROGRAM_GRAPH
    if (!graph_.call(values_, given_, outputs_))
#endif
      outputs_ = run(values_, given_);
    if (outputs_.size() == 1) return THPVariable_Wrap(outputs_[0]);
    pybind11::tuple all(outputs_.size());
    for (const auto i : c10::irange(outputs_.size()))
      PyTuple_SET_ITEM(all.ptr(), i, THPVariable_Wrap(outputs_[i]));
    return all.release().ptr();
  }

  values values_;
  std::vector<weight> weights_;
  bool bound_ = false, depends_on_values_ = false;
  // The last call's arguments, with null for each tensor. Unknown before the first call.
  std::optional<std::vector<pybind11::object>> form_;
  std::vector<at::Tensor> given_, outputs_;
#ifdef PROGRAM_GRAPH
  graph_runner graph_;
#endif
};

using program_pointer = std::shared_ptr<program>;

PyObject* quick(PyObject* self, PyObject* arguments) {
  HANDLE_TH_ERRORS
  return (*static_cast<program_pointer*>(PyCapsule_GetPointer(self, nullptr)))->quick(arguments);
  END_HANDLE_TH_ERRORS
}

// A plain C function for Python: a call through pybind11 takes several times as long.
pybind11::object quick_function(const program_pointer& p) {
  static PyMethodDef definition{"quick", quick, METH_O, nullptr};
  const auto capsule =
      pybind11::reinterpret_steal<pybind11::object>(PyCapsule_New(new program_pointer(p), nullptr, [](PyObject* self) {
        delete static_cast<program_pointer*>(PyCapsule_GetPointer(self, nullptr));
      }));
  auto function = pybind11::reinterpret_steal<pybind11::object>(PyCFunction_New(&definition, capsule.ptr()));
  if (!function) throw pybind11::error_already_set();
  return function;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  pybind11::class_<program, program_pointer>(m, "Program")
      .def(pybind11::init<const std::vector<std::pair<pybind11::dict, pybind11::str>>&>())
      .def("call", &program::call)
      .def("quick_function", &quick_function)
      .def("notes", &program::notes);
}
