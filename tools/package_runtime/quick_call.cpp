// The module cudal1_package_runtime of Python, in the library of that name: a call of a packaged module that is like
// its last one, as one function of C. Between two calls of a model caches are cold, and then each of Python's functions
// on the way to a kernel takes as long as its launch. By Python's stable ABI, of 3.10.
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/version.h>

#include "sandbox/cuda/runtime/own_gpu_operators.hpp"
#include "tools/kernelbench/runtime/python_objects.hpp"
#include "tools/package_runtime/package_numbers.hpp"
#include "tools/package_runtime/packaged_program.hpp"

// What PyTorch's Python module has, as in tools/kernelbench/runtime/torch_python.hpp, which is not for the stable ABI.
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11);
struct THPVariable {  // its beginning
  PyObject_HEAD at::Tensor cdata;
};
extern PyObject* THPVariableClass;
PyObject* THPVariable_Wrap(const at::TensorBase& tensor);

namespace cudal1::package {
namespace {

constexpr long runtime_format = 1;  // native.py reads it

const at::Tensor& tensor_of(PyObject* o) {
  return reinterpret_cast<THPVariable*>(o)->cdata;
}

const at::Tensor& checked_tensor(PyObject* o) {
  const int is_tensor = PyObject_IsInstance(o, THPVariableClass);
  if (is_tensor < 0) throw python_problem();
  if (is_tensor == 0) throw std::invalid_argument("a tensor is wanted");
  return tensor_of(o);
}

// Items of a tuple, which keeps them.
template <class T, class F>
std::vector<T> items_of(PyObject* tuple, const F& item_of) {
  std::vector<T> items;
  const auto count = PyTuple_Size(tuple);
  if (count < 0) throw python_problem();
  for (Py_ssize_t i = 0; i < count; ++i)
    items.push_back(item_of(PyTuple_GetItem(tuple, i)));
  return items;
}

int64_t integer_of(PyObject* o) {
  const auto n = PyLong_AsLongLong(o);
  if (n == -1 && PyErr_Occurred() != nullptr) throw python_problem();
  return n;
}

// Something on which a call relies: a dictionary has this very object under a key.
struct anchor {
  object held, key, found;
  bool is_there() const { return PyDict_GetItemWithError(held.get(), key.get()) == found.get(); }
};

struct anchored_weight {
  anchor where;
  const void* data = nullptr;
  at::ScalarType dtype = at::kFloat;
  std::optional<uint32_t> version;  // where set-up steps have read its values

  bool is_same(bool gradients) const {
    if (!where.is_there()) return false;
    const auto& t = tensor_of(where.found.get());
    return t.const_data_ptr() == data && t.scalar_type() == dtype && !(gradients && t.requires_grad()) &&
           (!version || static_cast<uint32_t>(t._version()) == *version);
  }
};

struct input_form {
  at::ScalarType dtype;
  at::Device device;
  std::vector<int64_t> sizes, strides;

  bool is_of(const at::Tensor& t, bool gradients) const {
    return t.scalar_type() == dtype && t.device() == device && t.sizes().equals(sizes) && t.strides().equals(strides) &&
           !(gradients && t.requires_grad()) && !t._fw_grad(0).defined();
  }
};

// Calls of one module that are like one before. Python's global interpreter lock protects it.
class quick_call {
 public:
  std::vector<input_form> inputs;
  std::vector<anchor> anchors;
  std::vector<anchored_weight> weights;
  std::shared_ptr<packaged_program> program;
  std::vector<at::Tensor> bound, kept;
  std::shared_ptr<packaged_graph> graph;  // or null
  object returned;                        // a function of the list of outputs, or null: a tensor, or a tuple of several

  quick_call() {
    const auto now = c10::impl::tls_local_dispatch_key_set();
    included_ = now.included_.raw_repr();
    excluded_ = now.excluded_.raw_repr();
  }

  // A new reference; None, and nothing is done, for a call of another kind.
  PyObject* run(PyObject* arguments) {
    const auto given = inputs_of(arguments);
    if (!given) Py_RETURN_NONE;
    ++program->quick_calls;
    std::vector<at::Tensor> outputs;
    std::exception_ptr problem;
    PyThreadState* const here = PyEval_SaveThread();
    try {
      outputs = graph ? graph->call(*given) : program->call(*given, bound, kept);
    } catch (...) {
      problem = std::current_exception();
    }
    PyEval_RestoreThread(here);
    if (problem) std::rethrow_exception(problem);
    return wrapped(outputs);
  }

  int visit(visitproc visit, void* arg) const {
    for (const auto& a : anchors)
      if (const int stop = visit_anchor(a, visit, arg); stop != 0) return stop;
    for (const auto& w : weights)
      if (const int stop = visit_anchor(w.where, visit, arg); stop != 0) return stop;
    Py_VISIT(returned.get());
    return 0;
  }

 private:
  static int visit_anchor(const anchor& a, visitproc visit, void* arg) {
    Py_VISIT(a.held.get());
    Py_VISIT(a.key.get());
    Py_VISIT(a.found.get());
    return 0;
  }

  // The call's tensors, if it is like the one before.
  std::optional<std::vector<at::Tensor>> inputs_of(PyObject* arguments) const {
    const auto now = c10::impl::tls_local_dispatch_key_set();
    if (now.included_.raw_repr() != included_ || now.excluded_.raw_repr() != excluded_) return std::nullopt;
    if (PyTuple_Size(arguments) != static_cast<Py_ssize_t>(inputs.size())) return std::nullopt;
    const bool gradients = at::GradMode::is_enabled();
    std::vector<at::Tensor> given;
    given.reserve(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      PyObject* const o = PyTuple_GetItem(arguments, static_cast<Py_ssize_t>(i));
      if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != THPVariableClass) return std::nullopt;
      const auto& t = tensor_of(o);
      if (!inputs[i].is_of(t, gradients)) return std::nullopt;
      given.push_back(t);
    }
    const auto& device = inputs[0].device;
    if (device.is_cuda() && c10::cuda::current_device() != device.index()) return std::nullopt;
    if (!std::all_of(anchors.begin(), anchors.end(), [](const anchor& a) { return a.is_there(); }) ||
        !std::all_of(weights.begin(), weights.end(), [&](const auto& w) { return w.is_same(gradients); }))
      return std::nullopt;
    return given;
  }

  PyObject* wrapped(const std::vector<at::Tensor>& outputs) const {
    if (returned.get() != nullptr) {
      const auto list = object::made(PyList_New(static_cast<Py_ssize_t>(outputs.size())));
      for (std::size_t i = 0; i < outputs.size(); ++i)
        if (PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), wrapped(outputs[i]).release()) != 0)
          throw python_problem();
      return PyObject_CallFunctionObjArgs(returned.get(), list.get(), nullptr);
    }
    if (outputs.size() == 1) return wrapped(outputs[0]).release();
    auto all = object::made(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (PyTuple_SetItem(all.get(), static_cast<Py_ssize_t>(i), wrapped(outputs[i]).release()) != 0)
        throw python_problem();
    return all.release();
  }
  static object wrapped(const at::Tensor& t) { return object::made(THPVariable_Wrap(t)); }

  decltype(c10::DispatchKeySet().raw_repr()) included_, excluded_;
};

// ---- QuickCall of Python --------------------------------------------------------------------------------------------

struct quick_object {
  PyObject_HEAD quick_call* held;
};

quick_call* held_by(PyObject* self) {
  return reinterpret_cast<quick_object*>(self)->held;
}

anchor anchor_of(PyObject* tuple) {
  anchor a{object::shared(PyTuple_GetItem(tuple, 0)), object::shared(PyTuple_GetItem(tuple, 1)),
           object::shared(PyTuple_GetItem(tuple, 2))};
  if (PyErr_Occurred() != nullptr) throw python_problem();
  if (PyDict_Check(a.held.get()) == 0) throw std::invalid_argument("an anchor is in no dictionary");
  return a;
}

// QuickCall(inputs, anchors, weights, program, bound, kept, graph, returned): tuples of tensors; of (dictionary, key,
// object); of (dictionary, key, tensor, whether its version counts); numbers of a program and of a graph, or 0; tuples
// of the tensors that the program takes; a function or None.
PyObject* new_quick(PyTypeObject* type, PyObject* arguments, PyObject*) {
  return given_to_python([&]() -> PyObject* {
    PyObject *inputs = nullptr, *anchors = nullptr, *weights = nullptr, *bound = nullptr, *kept = nullptr,
             *returned = nullptr;
    long long program = 0, graph = 0;
    if (PyArg_ParseTuple(arguments, "OOOLOOLO", &inputs, &anchors, &weights, &program, &bound, &kept, &graph,
                         &returned) == 0)
      return nullptr;
    auto made = std::make_unique<quick_call>();
    made->inputs = items_of<input_form>(inputs, [](PyObject* o) {
      const auto& t = checked_tensor(o);
      return input_form{t.scalar_type(), t.device(), t.sizes().vec(), t.strides().vec()};
    });
    if (made->inputs.empty()) throw std::invalid_argument("a quick call has an input");
    made->anchors = items_of<anchor>(anchors, anchor_of);
    made->weights = items_of<anchored_weight>(weights, [](PyObject* o) {
      anchored_weight w{anchor_of(o), nullptr, at::kFloat, std::nullopt};
      const auto& t = checked_tensor(w.where.found.get());
      w.data = t.const_data_ptr();
      w.dtype = t.scalar_type();
      if (integer_of(PyTuple_GetItem(o, 3)) != 0) w.version = static_cast<uint32_t>(t._version());
      return w;
    });
    made->bound = items_of<at::Tensor>(bound, checked_tensor);
    made->kept = items_of<at::Tensor>(kept, checked_tensor);
    made->program = programs().at(program);
    if (graph != 0) made->graph = graphs().at(graph);
    if (returned != Py_None) made->returned = object::shared(returned);
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject* const self = allocate(type, 0);
    if (self != nullptr) reinterpret_cast<quick_object*>(self)->held = made.release();
    return self;
  });
}

PyObject* call_quick(PyObject* self, PyObject* arguments) {
  return given_to_python([&]() -> PyObject* {
    if (held_by(self) == nullptr) Py_RETURN_NONE;
    return held_by(self)->run(arguments);
  });
}

int visit_quick(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return held_by(self) == nullptr ? 0 : held_by(self)->visit(visit, arg);
}

int clear_quick(PyObject* self) {
  delete std::exchange(reinterpret_cast<quick_object*>(self)->held, nullptr);
  return 0;
}

void delete_quick(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear_quick(self);
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* quick_type() {
  static PyMethodDef methods[] = {{"call", call_quick, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(new_quick)},        {Py_tp_dealloc, reinterpret_cast<void*>(delete_quick)},
      {Py_tp_traverse, reinterpret_cast<void*>(visit_quick)}, {Py_tp_clear, reinterpret_cast<void*>(clear_quick)},
      {Py_tp_methods, static_cast<void*>(methods)},           {0, nullptr}};
  static PyType_Spec spec{"cudal1_package_runtime.QuickCall", sizeof(quick_object), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  return PyType_FromSpec(&spec);
}

// ---- calls of modules -----------------------------------------------------------------------------------------------

bool is_nothing(PyObject* found) {
  return found == nullptr || PyObject_IsTrue(found) == 0;
}

// call_module(held, arguments, name, hooks): what the QuickCall under `name` in a module's dictionary gives, where
// nn.Module.__call__ would call forward and nothing else: no compiled code, no hooks of the module, and none of all
// modules, which are in the dictionaries `hooks`. Else None.
PyObject* call_module(PyObject* type, PyObject* arguments) {
  return given_to_python([&]() -> PyObject* {
    static const std::array<PyObject*, 6> names = {
        PyUnicode_InternFromString("_compiled_call_impl"), PyUnicode_InternFromString("_forward_hooks"),
        PyUnicode_InternFromString("_forward_pre_hooks"),  PyUnicode_InternFromString("_backward_hooks"),
        PyUnicode_InternFromString("_backward_pre_hooks"), PyUnicode_InternFromString("forward")};
    if (PyTuple_Size(arguments) != 4) throw std::invalid_argument("call_module takes four arguments");
    PyObject* const held = PyTuple_GetItem(arguments, 0);
    PyObject* const hooks = PyTuple_GetItem(arguments, 3);
    PyObject* const quick = PyDict_GetItemWithError(held, PyTuple_GetItem(arguments, 2));
    if (quick == nullptr || reinterpret_cast<PyObject*>(Py_TYPE(quick)) != type) Py_RETURN_NONE;
    for (PyObject* const name : names)
      if (!is_nothing(PyDict_GetItemWithError(held, name))) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < PyTuple_Size(hooks); ++i)
      if (!is_nothing(PyTuple_GetItem(hooks, i))) Py_RETURN_NONE;
    return call_quick(quick, PyTuple_GetItem(arguments, 1));
  });
}

}  // namespace
}  // namespace cudal1::package

#pragma GCC visibility push(default)

extern "C" PyObject* PyInit_cudal1_package_runtime() {
  using namespace cudal1::package;
  static PyMethodDef caller{"call_module", call_module, METH_VARARGS, nullptr};
  static PyModuleDef definition{
      PyModuleDef_HEAD_INIT, "cudal1_package_runtime", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  return given_to_python([] {
    cudal1::use_own_gpu_operators();
    auto m = object::made(PyModule_Create(&definition));
    const auto type = object::made(quick_type());
    const auto call = object::made(PyCFunction_NewEx(&caller, type.get(), nullptr));
    if (PyModule_AddObjectRef(m.get(), "QuickCall", type.get()) != 0 ||
        PyModule_AddObjectRef(m.get(), "call_module", call.get()) != 0 ||
        PyModule_AddIntConstant(m.get(), "format", runtime_format) != 0)
      throw python_problem();
    return m.release();
  });
}

#pragma GCC visibility pop
