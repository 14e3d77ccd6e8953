#include <torch/csrc/autograd/edge.h>

// What the program uses of PyTorch's Python module and autograd. The headers of these take a compiler ten
// seconds; where it is known what they declare, it is declared here.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11
struct THPVariable {  // its beginning
  PyObject_HEAD at::Tensor cdata;
};
inline const at::Tensor& THPVariable_Unpack(PyObject* o) {
  return reinterpret_cast<THPVariable*>(o)->cdata;
}
extern PyObject *THPVariableClass, *ParameterClass;
PyObject* THPVariable_Wrap(const at::TensorBase& tensor);
namespace torch::autograd::impl {
Edge gradient_edge(const at::Tensor& tensor);
void set_gradient_edge(const at::Tensor& tensor, Edge edge);
}  // namespace torch::autograd::impl
#else
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#endif

namespace {

bool is_exactly_tensor(PyObject* o) {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
  return type == THPVariableClass || type == ParameterClass;
}

bool is_tensor(PyObject* o) {
  if (is_exactly_tensor(o)) return true;
  const int found = PyObject_IsInstance(o, THPVariableClass);
  if (found < 0) throw python_problem();
  return found != 0;
}

// Lists and tuples of Python's, item by item.
template <class T, class F>
std::vector<T> items_of(PyObject* sequence, const F& item_of) {
  const auto fast = object::made(PySequence_Fast(sequence, "a list is wanted"));
  std::vector<T> items;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
    items.push_back(item_of(PySequence_Fast_GET_ITEM(fast.get(), i)));
  return items;
}

std::vector<at::Tensor> tensors_of(PyObject* sequence) {
  return items_of<at::Tensor>(sequence, [](PyObject* o) {
    if (!is_tensor(o)) fail("a list of tensors is wanted");
    return THPVariable_Unpack(o);
  });
}

object list_of(const std::vector<at::Tensor>& tensors) {
  auto list = object::made(PyList_New(static_cast<Py_ssize_t>(tensors.size())));
  for (const auto i : c10::irange(tensors.size()))
    PyList_SET_ITEM(list.get(), i, object::made(THPVariable_Wrap(tensors[i])).release());
  return list;
}

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 2) != 0) throw python_problem();
}

}  // namespace
