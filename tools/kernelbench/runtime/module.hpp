// The Python module: functions of C, since a call through pybind11 takes several times as long, and its headers
// seconds.
namespace {

// ---- Program: a program with the weights of one module ----

struct program_object {
  PyObject_HEAD program* held;
};

program& program_of(PyObject* self) {
  return *reinterpret_cast<program_object*>(self)->held;
}

// Program(weights, anchors, (module, mode), with_gradients, without_gradients): as made_for has them.
PyObject* new_program(PyTypeObject* type, PyObject* arguments, PyObject*) {
  return given_to_python([&]() -> PyObject* {
    PyObject *weights = nullptr, *anchors = nullptr, *module = nullptr, *mode = nullptr, *without = nullptr;
    int with_gradients = 0;
    if (PyArg_ParseTuple(arguments, "OO(OO)pO", &weights, &anchors, &module, &mode, &with_gradients, &without) == 0)
      return nullptr;
    const auto item = [](PyObject* tuple, Py_ssize_t i) { return object::made(PySequence_GetItem(tuple, i)); };
    program::made_for given;
    given.weights = items_of<program::place>(weights, [&](PyObject* o) {
      return program::place{item(o, 0), item(o, 1)};
    });
    given.anchors = items_of<program::anchor>(anchors, [&](PyObject* o) {
      return program::anchor{item(o, 0), item(o, 1), item(o, 2)};
    });
    given.module = object::shared(module);
    given.mode = object::shared(mode);
    given.with_gradients = with_gradients != 0;
    given.without_gradients = object::shared(without);
    auto made = std::make_unique<program>(std::move(given));
    auto self = object::made(type->tp_alloc(type, 0));
    reinterpret_cast<program_object*>(self.get())->held = made.release();
    return self.release();
  });
}

void delete_program(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<program_object*>(self)->held;
  type->tp_free(self);
  Py_DECREF(type);
}

// call(tensors, arguments or None, capturing)
PyObject* call_program(PyObject* self, PyObject* arguments) {
  return given_to_python([&]() -> PyObject* {
    PyObject *tensors = nullptr, *form = nullptr;
    int capturing = 0;
    if (PyArg_ParseTuple(arguments, "OOp", &tensors, &form, &capturing) == 0) return nullptr;
    return program_of(self).call(tensors_of(tensors), form, capturing != 0);
  });
}

PyObject* quick(PyObject* self, PyObject* arguments) {
  return given_to_python([&] { return program_of(self).quick(arguments); });
}

PyObject* is_anchored(PyObject* self, PyObject*) {
  return given_to_python([&] { return PyBool_FromLong(static_cast<long>(program_of(self).is_anchored())); });
}

PyObject* notes(PyObject* self, PyObject*) {
  return given_to_python([&] {
    auto list = object::made(PyList_New(0));
    for (const auto& note : program_of(self).notes())
      if (PyList_Append(list.get(), object::made(PyUnicode_FromString(note.c_str())).get()) != 0)
        throw python_problem();
    return list.release();
  });
}

PyObject* program_type() {
  static PyMethodDef methods[] = {{"call", call_program, METH_VARARGS, nullptr},
                                  {"quick", quick, METH_O, nullptr},
                                  {"is_anchored", is_anchored, METH_NOARGS, nullptr},
                                  {"notes", notes, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_program)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(delete_program)},
                                {Py_tp_methods, static_cast<void*>(methods)},
                                {0, nullptr}};
  static PyType_Spec spec{"cudal1.Program", sizeof(program_object), 0, Py_TPFLAGS_DEFAULT, slots};
  return PyType_FromSpec(&spec);
}

// ---- calls of modules ----

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
  return given_to_python([&]() -> PyObject* {
    static PyObject* const state_name = PyUnicode_InternFromString("_kb_state");
    static PyObject* const quick_name = PyUnicode_InternFromString("quick");
    static PyObject* const forward_name = PyUnicode_InternFromString("forward");
    PyObject* const held = given[1];
    PyObject* const state = PyDict_GetItemWithError(held, state_name);
    if (state == nullptr || PyDict_GetItemWithError(held, forward_name) != nullptr ||
        !calls_forward_alone(held, PyTuple_GET_ITEM(self, 1)))
      Py_RETURN_NONE;
    const auto forward = object::made(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(given[0])), forward_name));
    if (forward.get() != PyTuple_GET_ITEM(self, 0)) Py_RETURN_NONE;
    const auto function = object::made(PyObject_GetAttr(state, quick_name));
    return program_of(PyCFunction_GET_SELF(function.get())).quick(given[2]);
  });
}

// module_caller(forward, hooks_of_all): call_module with these.
PyObject* module_caller(PyObject*, PyObject* arguments) {
  static PyMethodDef definition{"call_module", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_module)),
                                METH_FASTCALL, nullptr};
  return PyCFunction_New(&definition, arguments);
}

PyObject* is_watched(PyObject*, PyObject* tensors) {
  return given_to_python([&] { return PyBool_FromLong(static_cast<long>(program::is_watched(tensors_of(tensors)))); });
}

}  // namespace

#define CUDAL1_JOINED(a, b) a##b
#define CUDAL1_INIT(name) CUDAL1_JOINED(PyInit_, name)

PyMODINIT_FUNC CUDAL1_INIT(TORCH_EXTENSION_NAME)() {
  static PyMethodDef functions[] = {{"module_caller", module_caller, METH_VARARGS, nullptr},
                                    {"is_watched", is_watched, METH_O, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};
  static PyModuleDef definition{
      PyModuleDef_HEAD_INIT, program_name, nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};
  return given_to_python([] {
    auto m = object::made(PyModule_Create(&definition));
    const auto type = object::made(program_type());
    if (PyModule_AddObjectRef(m.get(), "Program", type.get()) != 0) throw python_problem();
    return m.release();
  });
}
