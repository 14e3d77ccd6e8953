namespace {

// The program with the weights of one module. Not thread-safe; Python's global interpreter lock protects it.
class program {
 public:
  // A tensor of the module: the dictionary that holds it, and its key there.
  struct place {
    object held, key;
  };
  // Something that a program relies on: a dictionary that has this very object under a key.
  struct anchor {
    object held, key, found;
  };
  struct made_for {
    std::vector<place> weights;
    std::vector<anchor>
        anchors;                 // submodules that these are in, and modes of those that compute otherwise in the other
    object module, mode;         // a weak reference to the module, which holds this program, and its mode, or None
    bool with_gradients = true;  // false leaves calls that need gradients to the caller
    // Called with the outputs and what they depend on: tensors like these whose backward() raises an error.
    object without_gradients;
  };

  explicit program(made_for given) : given_to_(std::move(given)) {
    const auto& weights = given_to_.weights;
    if (weights.size() != weight_types().size())
      fail("the program has " + std::to_string(weight_types().size()) + " weights, and " +
           std::to_string(weights.size()) + " were given");
    for (const auto& w : weights) {
      if (PyDict_Check(w.held.get()) == 0) fail("a weight is in no dictionary");
      weights_.push_back({w});
    }
  }

  // Handles any call. `arguments`: the tuple that contains the tensors, none of them nested, so that the next call of
  // the same form is quick; None for a call of any other form. `capturing`: the caller captures a CUDA graph, in which
  // nothing can be made that later calls use.
  PyObject* call(const std::vector<at::Tensor>& inputs, PyObject* arguments, bool capturing) {
    form_.reset();
    const auto& wanted = input_types();
    if (inputs.size() != wanted.size())
      fail("forward was given " + std::to_string(inputs.size()) + " tensors, and this program was made for " +
           std::to_string(wanted.size()));
    const auto weights = current_weights();
    const at::Device device = !inputs.empty() ? inputs[0].device() : weights.at(0).device();
    if (needs_gpu && !device.is_cuda())
      fail(std::string(program_name) + ": this program runs on a GPU, and was given tensors on " + device.str() +
           "; move the model and its inputs to a GPU");
    const c10::OptionalDeviceGuard on(device);
    const bool gradients = at::GradMode::is_enabled(), autocast = is_autocast(device);
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
    if (arguments != Py_None) remember(arguments);
    return wrapped_outputs();
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
    if (const auto* const mode = given_to_.mode.get(); mode != Py_None) {
      static PyObject* const name = PyUnicode_InternFromString("training");
      PyObject* const now = PyWeakref_GetObject(given_to_.module.get());
      if (now == Py_None || object::made(PyObject_GetAttr(now, name)).get() != mode) return false;
    }
    return std::all_of(given_to_.anchors.begin(), given_to_.anchors.end(), [](const anchor& a) {
      return PyDict_GetItemWithError(a.held.get(), a.key.get()) == a.found.get();
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
    place where;
    object found;       // what was there when the weights were bound
    at::Tensor tensor;  // keeps the memory, so that no other tensor can get the same address
    const void* data = nullptr;
    uint32_t version = 0;
    bool requires_grad = false;

    PyObject* now() const { return PyDict_GetItemWithError(where.held.get(), where.key.get()); }
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

  // As at::autocast::is_autocast_enabled.
  static bool is_autocast(at::Device device) {
    return device.is_cuda() ? !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCUDA)
                            : !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU);
  }

  static uint32_t version_of(const at::Tensor& t) {
    return t.is_inference() ? 0 : static_cast<uint32_t>(t._version());
  }

  std::vector<at::Tensor> current_weights() const {
    std::vector<at::Tensor> all;
    for (const auto i : c10::irange(weights_.size())) {
      PyObject* now = weights_[i].now();
      if (now == nullptr || !is_tensor(now))
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
      weights_[i].found = object::shared(weights_[i].now());
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
    no_backward_.clear();
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

  void remember(PyObject* arguments) {
    form_ = items_of<object>(arguments, [](PyObject* a) { return is_tensor(a) ? object() : object::shared(a); });
  }

  // True if quick() can handle the call.
  bool is_known(PyObject* arguments, bool gradients) const {
    if (!form_ || !PyTuple_CheckExact(arguments) ||
        static_cast<std::size_t>(PyTuple_GET_SIZE(arguments)) != form_->size() || is_recorded() || !is_anchored() ||
        (gradients && weights_require_ && !given_to_.with_gradients))
      return false;
    std::size_t tensors = 0;
    for (const auto i : c10::irange(form_->size())) {
      PyObject* given = PyTuple_GET_ITEM(arguments, i);
      const auto& plain = (*form_)[i];
      if (!plain) {
        if (!is_exactly_tensor(given)) return false;
        const auto& t = THPVariable_Unpack(given);
        if (t.device() != values_.device || t.scalar_type() != input_types()[tensors++].dtype) return false;
        if (gradients && t.requires_grad()) return false;
      } else if (given != plain.get()) {
        if (Py_TYPE(given) != Py_TYPE(plain.get())) return false;
        const int same = PyObject_RichCompareBool(given, plain.get(), Py_EQ);
        if (same < 0) throw python_problem();
        if (same == 0) return false;
      }
    }
    return std::all_of(weights_.begin(), weights_.end(), [this](const weight& w) {
      PyObject* now = w.now();
      return now == w.found.get() && is_as_bound(w, THPVariable_Unpack(now));
    });
  }

  void make_outputs() {
#ifdef PROGRAM_GRAPH
    if (!graph_.call(values_, given_, outputs_))
#endif
      outputs_ = run(values_, given_);
  }

  // Lets the outputs require gradients as eager's do, and backward() raise an error: KernelBench, and who only
  // computes, calls modules without torch.no_grad(). `inputs` that require gradients make a node of their own.
  void refuse_backward(const std::vector<at::Tensor>& inputs) {
    const bool own = std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return t.requires_grad(); });
    std::vector<torch::autograd::Edge> made;
    if (own || no_backward_.empty()) made = edges_without_backward(inputs);
    if (!own && no_backward_.empty()) no_backward_ = std::move(made);
    const auto& edges = own ? made : no_backward_;
    for (const auto i : c10::irange(outputs_.size()))
      if (may_require(outputs_[i])) torch::autograd::impl::set_gradient_edge(outputs_[i], edges[i]);
  }

  // To a node whose backward raises the error, one for each output.
  std::vector<torch::autograd::Edge> edges_without_backward(const std::vector<at::Tensor>& inputs) const {
    std::vector<at::Tensor> sources;
    for (const auto& tensors : {inputs, current_weights()})
      std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(sources),
                   [](const at::Tensor& t) { return t.requires_grad(); });
    const c10::AutoGradMode gradients{true};
    const auto like = object::made(PyObject_CallFunctionObjArgs(
        given_to_.without_gradients.get(), list_of(outputs_).get(), list_of(sources).get(), nullptr));
    return items_of<torch::autograd::Edge>(
        like.get(), [](PyObject* o) { return torch::autograd::impl::gradient_edge(THPVariable_Unpack(o)); });
  }

  // Not an input that the program returns as it is, nor a view of it, unless the input itself requires gradients.
  bool may_require(const at::Tensor& output) const {
    if (!(output.is_floating_point() || output.is_complex()) || output.is_inference()) return false;
    for (const auto i : c10::irange(given_.size()))
      if (output.storage().is_alias_of(given_[i].storage())) return i < requiring_.size() && requiring_[i];
    return true;
  }

  // A new reference: a tensor, or a tuple of several.
  PyObject* wrapped_outputs() const {
    if (outputs_.size() == 1) return THPVariable_Wrap(outputs_[0]);
    auto all = object::made(PyTuple_New(static_cast<Py_ssize_t>(outputs_.size())));
    for (const auto i : c10::irange(outputs_.size()))
      PyTuple_SET_ITEM(all.get(), i, object::made(THPVariable_Wrap(outputs_[i])).release());
    return all.release();
  }

  values values_;
  std::vector<weight> weights_;
  made_for given_to_;
  bool bound_ = false, depends_on_values_ = false, weights_require_ = false;
  std::vector<torch::autograd::Edge> no_backward_;  // of calls in which weights alone require gradients
  // The last call's arguments, with null for each tensor. Unknown before the first call.
  std::optional<std::vector<object>> form_;
  std::vector<at::Tensor> given_, outputs_;
  std::vector<bool> requiring_;  // of each input, whether it requires gradients; empty: none does
#ifdef PROGRAM_GRAPH
  graph_runner graph_;
#endif
};

}  // namespace
