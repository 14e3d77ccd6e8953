#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/python_headers.h>
#include <torch/version.h>

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
namespace torch {
void translate_exception_to_python(const std::exception_ptr& problem);
namespace autograd::impl {
Edge gradient_edge(const at::Tensor& tensor);
void set_gradient_edge(const at::Tensor& tensor, Edge edge);
}  // namespace autograd::impl
}  // namespace torch
#else
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#endif

namespace {

// Python's error is set.
class python_problem : public std::exception {};

// A reference to an object of Python's, or nothing.
class object {
 public:
  object() = default;
  // Takes a reference that a function has made; where it has made none, it has set an error.
  static object made(PyObject* p) {
    if (p == nullptr) throw python_problem();
    object o;
    o.p_ = p;
    return o;
  }
  static object shared(PyObject* p) {
    Py_XINCREF(p);
    object o;
    o.p_ = p;
    return o;
  }
  object(const object& other) : p_(other.p_) { Py_XINCREF(p_); }
  object(object&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  object& operator=(object other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  ~object() { Py_XDECREF(p_); }

  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// What a function of this module gives to Python, whatever it throws.
template <class F>
PyObject* given_to_python(const F& function) {
  try {
    return function();
  } catch (const python_problem&) {
    return nullptr;
  } catch (const std::exception&) {
    torch::translate_exception_to_python(std::current_exception());
    return nullptr;
  }
}

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
