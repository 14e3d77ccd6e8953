#include <exception>
#include <utility>

#include <torch/csrc/python_headers.h>
#include <torch/version.h>

// Its header takes a compiler seconds; where it is known what it declares, it is declared here.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11
namespace torch {
void translate_exception_to_python(const std::exception_ptr& problem);
}
#else
#include <torch/csrc/Exceptions.h>
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

}  // namespace
