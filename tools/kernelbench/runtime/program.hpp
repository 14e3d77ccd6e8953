#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>

namespace {

std::string no_gradients() {
  return std::string(program_name) +
         ": this program computes no gradients. Call the module under torch.no_grad() or torch.inference_mode(); for "
         "gradients train with Model, or export with --gradients eager";
}

// The program with the weights of one module. Not thread-safe; Python's global interpreter lock protects it.
class program {
 public:
  // Something that a program relies on: a dictionary that has this very object under a key.
  using anchor = std::tuple<pybind11::dict, pybind11::str, pybind11::object>;

  // `weights`: for each, the dictionary that holds it and its key there. `anchors`: the submodules that these were
  // found in, and the modes of those that compute something else in the other mode. `own_mode`: a weak reference to the
  // module, which holds this program, and the mode that it must be in, or None. `with_gradients`: false leaves calls
  // that need gradients to the caller.
  program(const std::vector<std::pair<pybind11::dict, pybind11::str>>& weights, std::vector<anchor> anchors,
          std::pair<pybind11::object, pybind11::object> own_mode, bool with_gradients)
      : anchors_(std::move(anchors)), own_mode_(std::move(own_mode)), with_gradients_(with_gradients) {
    if (weights.size() != weight_types().size())
      fail("the program has " + std::to_string(weight_types().size()) + " weights, and " +
           std::to_string(weights.size()) + " were given");
    for (const auto& [held, key] : weights)
      weights_.push_back({held, key});
  }

  // Handles any call. `arguments`: the tuple that contains the tensors, none of them nested, so that the next call of
  // the same form is quick; None for a call of any other form. `capturing`: the caller captures a CUDA graph, in which
  // nothing can be made that later calls use.
  pybind11::object call(const std::vector<at::Tensor>& inputs, const pybind11::object& arguments, bool capturing) {
    form_.reset();
    const auto& wanted = input_types();
    if (inputs.size() != wanted.size())
      fail("forward was given " + std::to_string(inputs.size()) + " tensors, and this program was made for " +
           std::to_string(wanted.size()));
    const auto weights = current_weights();
    const at::Device device = !inputs.empty() ? inputs[0].device() : weights.at(0).device();
    if (needs_gpu && !device.is_cuda()) fail("this program has CUDA kernels; move the model and its inputs to a GPU");
    const c10::OptionalDeviceGuard on(device);
    const bool gradients = at::GradMode::is_enabled(), autocast = at::autocast::is_autocast_enabled(device.type());
    const plain_mode mode;
    const emptied at_end{*this};
    bind(weights, device, capturing);
    bool required = weights_require_;
    for (const auto i : c10::irange(inputs.size())) {
      given_.push_back(
          as_declared(with_declared_type(inputs[i], wanted[i], autocast), wanted[i], "input", device, input_alignment));
      requiring_.push_back(inputs[i].requires_grad());
      required |= requiring_.back();
    }
    make_outputs();
    if (gradients && required) refuse_backward(inputs);
    if (!arguments.is_none()) remember(arguments);
    return pybind11::reinterpret_steal<pybind11::object>(wrapped_outputs());
  }

  // Handles a call whose arguments have the form of the last one and whose weights are where they were, without lists,
  // casts and guards that change nothing. Returns Python's None, and does nothing, for any other call.
  PyObject* quick(PyObject* arguments) {
    const bool gradients = at::GradMode::is_enabled();
    if (!is_known(arguments, gradients)) Py_RETURN_NONE;
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
    make_outputs();
    if (gradients && weights_require_) refuse_backward({});
    return wrapped_outputs();
  }

  // Whether PyTorch must see the call as one of an operator: while something records, traces or transforms operators,
  // or where tensors have no memory to read.
  static bool is_watched(const std::vector<at::Tensor>& inputs) {
    return is_recorded() || std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) {
             return t.unsafeGetTensorImpl()->is_python_dispatch() || !(t.is_cpu() || t.is_cuda());
           });
  }

  // Whether the modules are those that it was made for.
  bool is_anchored() const {
    const auto& [module, mode] = own_mode_;
    if (!mode.is_none()) {
      static PyObject* const name = PyUnicode_InternFromString("training");
      PyObject* const now = PyWeakref_GetObject(module.ptr());
      if (now == Py_None || !pybind11::reinterpret_steal<pybind11::object>(PyObject_GetAttr(now, name)).is(mode))
        return false;
    }
    return std::all_of(anchors_.begin(), anchors_.end(), [](const anchor& a) {
      const auto& [held, key, object] = a;
      return PyDict_GetItemWithError(held.ptr(), key.ptr()) == object.ptr();
    });
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
    bool requires_grad = false;
  };
  // Empties the lists after a call; their memory is kept.
  struct emptied {
    program& p;
    ~emptied() {
      p.given_.clear();
      p.requiring_.clear();
      p.outputs_.clear();
    }
  };

  static bool is_recorded() {
    const auto included = c10::impl::tls_local_dispatch_key_set().included_;
    return !(included - c10::default_included_set).empty();
  }

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
    return now.const_data_ptr() == w.data && (!depends_on_values_ || version_of(now) == w.version) &&
           now.requires_grad() == w.requires_grad;
  }

  // Weights are checked in each call. They are bound again if one has another address or, if setup steps read the
  // weights or one had to be copied, if any has a new version. (PyTorch counts in-place changes as versions, but not
  // changes through `.data`.)
  void bind(const std::vector<at::Tensor>& weights, at::Device device, bool capturing) {
    bool same = bound_ && device == values_.device;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights_[i].found = weights_[i].held[weights_[i].key];
      same = same && is_as_bound(weights_[i], weights[i]);
    }
    if (same) return;
    if (capturing)
      fail(
          "the first call, and one after weights have changed, must come before a CUDA graph is captured: warm up "
          "with a call");
    const auto& wanted = weight_types();
    if (bound_ && depends_on_values_) wait_for_device();  // other streams may read what the setup made
    bound_ = false;
    no_backward_.reset();
    weights_require_ = false;
#ifdef PROGRAM_GRAPH
    graph_.drop();
#endif
    values_ = values();
    values_.device = device;
    depends_on_values_ = has_setup;
    std::vector<at::Tensor> bound;
    for (const auto i : c10::irange(weights.size())) {
      auto& w = weights_[i];
      bound.push_back(as_declared(weights[i], wanted[i], "weight", device, weight_alignment));
      w.tensor = weights[i].detach();
      w.data = weights[i].const_data_ptr();
      w.version = version_of(weights[i]);
      w.requires_grad = weights[i].requires_grad();
      weights_require_ |= w.requires_grad;
      if (bound.back().const_data_ptr() != w.data) depends_on_values_ = true;
    }
    for (const auto i : c10::irange(weights.size()))
      if (depends_on_values_ && weights[i].is_inference())
        fail(std::string("weight ") + wanted[i].name +
             " was made in inference mode, in which PyTorch does not count changes, and this program computes with its "
             "values once: make the module outside of inference mode");
    prepare(values_);
    set_weights(values_, bound);
    run_setup(values_);
    bound_ = true;
    if (depends_on_values_) wait_for_device();  // the next call may be on another stream
  }

  void wait_for_device() const {
    if (values_.device.is_cuda()) c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(values_.device.index());
  }

  void remember(const pybind11::object& arguments) {
    std::vector<pybind11::object> form;
    for (const pybind11::handle a : pybind11::tuple(arguments))
      form.push_back(THPVariable_Check(a.ptr()) ? pybind11::object()
                                                : pybind11::reinterpret_borrow<pybind11::object>(a));
    form_ = std::move(form);
  }

  // True if quick() can handle the call.
  bool is_known(PyObject* arguments, bool gradients) const {
    if (!form_ || !PyTuple_CheckExact(arguments) ||
        static_cast<std::size_t>(PyTuple_GET_SIZE(arguments)) != form_->size() || is_recorded() || !is_anchored() ||
        (gradients && weights_require_ && !with_gradients_))
      return false;
    std::size_t tensors = 0;
    for (const auto i : c10::irange(form_->size())) {
      PyObject* given = PyTuple_GET_ITEM(arguments, i);
      const auto& plain = (*form_)[i];
      if (!plain) {
        if (!THPVariable_CheckExact(given)) return false;
        const auto& t = THPVariable_Unpack(given);
        if (t.device() != values_.device || t.scalar_type() != input_types()[tensors++].dtype) return false;
        if (gradients && t.requires_grad()) return false;
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

  void make_outputs() {
#ifdef PROGRAM_GRAPH
    if (!graph_.call(values_, given_, outputs_))
#endif
      outputs_ = run(values_, given_);
  }

  // Of tensors that gradients go to.
  static void add_edges(torch::autograd::edge_list& edges, const at::Tensor& t) {
    if (t.requires_grad()) edges.push_back(torch::autograd::impl::gradient_edge(t));
  }

  // Lets the outputs require gradients as eager's do, and backward() raise an error: KernelBench, and who only
  // computes, calls modules without torch.no_grad(). `inputs` that require gradients make a node of their own.
  void refuse_backward(const std::vector<at::Tensor>& inputs) {
    auto node = no_backward_;
    const bool own = std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return t.requires_grad(); });
    if (own || !node) {
      torch::autograd::edge_list edges;
      for (const auto& t : inputs)
        add_edges(edges, t);
      for (const auto& w : current_weights())
        add_edges(edges, w);
      node = std::shared_ptr<torch::autograd::Node>(new torch::autograd::Error(no_gradients(), std::move(edges)),
                                                    torch::autograd::deleteNode);
      for (const auto& t : outputs_)
        node->add_input_metadata(t);
      if (!own) no_backward_ = node;
    }
    for (const auto i : c10::irange(outputs_.size()))
      if (may_require(outputs_[i]))
        torch::autograd::impl::set_gradient_edge(outputs_[i], {node, static_cast<uint32_t>(i)});
  }

  // Not an input that the program returns as it is, nor a view of it, unless the input itself requires gradients.
  bool may_require(const at::Tensor& output) const {
    if (!torch::autograd::isDifferentiableType(output.scalar_type()) || output.is_inference()) return false;
    for (const auto i : c10::irange(given_.size()))
      if (output.storage().is_alias_of(given_[i].storage())) return i < requiring_.size() && requiring_[i];
    return true;
  }

  // A new reference: a tensor, or a tuple of several.
  PyObject* wrapped_outputs() const {
    if (outputs_.size() == 1) return THPVariable_Wrap(outputs_[0]);
    pybind11::tuple all(outputs_.size());
    for (const auto i : c10::irange(outputs_.size()))
      PyTuple_SET_ITEM(all.ptr(), i, THPVariable_Wrap(outputs_[i]));
    return all.release().ptr();
  }

  values values_;
  std::vector<weight> weights_;
  std::vector<anchor> anchors_;
  std::pair<pybind11::object, pybind11::object> own_mode_;
  bool with_gradients_ = true;
  bool bound_ = false, depends_on_values_ = false, weights_require_ = false;
  std::shared_ptr<torch::autograd::Node> no_backward_;  // of calls in which weights alone require gradients
  // The last call's arguments, with null for each tensor. Unknown before the first call.
  std::optional<std::vector<pybind11::object>> form_;
  std::vector<at::Tensor> given_, outputs_;
  std::vector<bool> requiring_;  // of each input, whether it requires gradients; empty: none does
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

// A plain C function for Python: a call through pybind11 takes several times as long. `self`: its first argument.
pybind11::object c_function(PyMethodDef& definition, const pybind11::object& self) {
  auto function = pybind11::reinterpret_steal<pybind11::object>(PyCFunction_New(&definition, self.ptr()));
  if (!function) throw pybind11::error_already_set();
  return function;
}

pybind11::object quick_function(const program_pointer& p) {
  static PyMethodDef definition{"quick", quick, METH_O, nullptr};
  const auto capsule =
      pybind11::reinterpret_steal<pybind11::object>(PyCapsule_New(new program_pointer(p), nullptr, [](PyObject* self) {
        delete static_cast<program_pointer*>(PyCapsule_GetPointer(self, nullptr));
      }));
  return c_function(definition, capsule);
}

// Whether nn.Module.__call__ would call forward and nothing else: no compiled code, no hooks of the module, of which
// `held` is the dictionary, and none of all modules, of which `hooks_of_all` is a tuple of dictionaries.
bool calls_forward_alone(PyObject* held, PyObject* hooks_of_all) {
  static const std::array<PyObject*, 5> names = {
      PyUnicode_InternFromString("_compiled_call_impl"), PyUnicode_InternFromString("_forward_hooks"),
      PyUnicode_InternFromString("_forward_pre_hooks"), PyUnicode_InternFromString("_backward_hooks"),
      PyUnicode_InternFromString("_backward_pre_hooks")};
  const auto is_nothing = [](PyObject* found) { return found == nullptr || PyObject_IsTrue(found) == 0; };
  PyObject* const* const first = PySequence_Fast_ITEMS(hooks_of_all);
  return std::all_of(first, first + PyTuple_GET_SIZE(hooks_of_all), is_nothing) &&
         std::all_of(names.begin(), names.end(),
                     [&](PyObject* name) { return is_nothing(PyDict_GetItemWithError(held, name)); });
}

// A call of a module without what nn.Module.__call__ takes for itself; None where it must be made, since the call is
// not like the last one or something else than ModelNew's forward is to be called. `given`: the module, its dictionary
// and the tuple of the call's arguments. `self`: ModelNew's forward, and the hooks of all modules.
PyObject* call_module(PyObject* self, PyObject* const* given, Py_ssize_t) {
  HANDLE_TH_ERRORS
  static PyObject* const state_name = PyUnicode_InternFromString("_kb_state");
  static PyObject* const quick_name = PyUnicode_InternFromString("quick");
  static PyObject* const forward_name = PyUnicode_InternFromString("forward");
  PyObject* const held = given[1];
  PyObject* const state = PyDict_GetItemWithError(held, state_name);
  if (state == nullptr || PyDict_GetItemWithError(held, forward_name) != nullptr ||
      !calls_forward_alone(held, PyTuple_GET_ITEM(self, 1)))
    Py_RETURN_NONE;
  const auto forward = pybind11::reinterpret_steal<pybind11::object>(
      PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(given[0])), forward_name));
  if (!forward) throw pybind11::error_already_set();
  if (!forward.is(pybind11::handle(PyTuple_GET_ITEM(self, 0)))) Py_RETURN_NONE;
  const auto function = pybind11::reinterpret_steal<pybind11::object>(PyObject_GetAttr(state, quick_name));
  if (!function) throw pybind11::error_already_set();
  return quick(PyCFunction_GET_SELF(function.ptr()), given[2]);
  END_HANDLE_TH_ERRORS
}

pybind11::object module_caller(const pybind11::object& forward, const pybind11::tuple& hooks_of_all) {
  static PyMethodDef definition{"call_module", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_module)),
                                METH_FASTCALL, nullptr};
  return c_function(definition, pybind11::make_tuple(forward, hooks_of_all));
}

// Element type, shape and strides of each, for Python.
std::vector<std::tuple<at::ScalarType, std::vector<int64_t>, std::vector<int64_t>>> types_of(
    const std::vector<tensor_type>& types) {
  std::vector<std::tuple<at::ScalarType, std::vector<int64_t>, std::vector<int64_t>>> all;
  for (const auto& t : types)
    all.emplace_back(t.dtype, t.shape, t.strides);
  return all;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  pybind11::class_<program, program_pointer>(m, "Program")
      .def(pybind11::init<const std::vector<std::pair<pybind11::dict, pybind11::str>>&, std::vector<program::anchor>,
                          std::pair<pybind11::object, pybind11::object>, bool>())
      .def("call", &program::call)
      .def("is_anchored", &program::is_anchored)
      .def("quick_function", &quick_function)
      .def("notes", &program::notes);
  m.def("module_caller", &module_caller);
  m.attr("no_gradients") = no_gradients();
  m.def("is_watched", &program::is_watched);
  m.def("input_types", [] { return types_of(input_types()); });
  m.def("weight_types", [] { return types_of(weight_types()); });
  m.def("output_types", [] { return types_of(output_types()); });
}
