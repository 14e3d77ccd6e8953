#include <ATen/Context.h>

namespace {

// The precision that a step requests of the libraries' matrix products and convolutions, while it runs.
class product_precision {
 public:
  explicit product_precision(bool tf32)
      : before_{at::globalContext().allowTF32CuBLAS(), at::globalContext().allowTF32CuDNN()} {
    set({tf32, tf32});
  }
  ~product_precision() { set(before_); }
  product_precision(const product_precision&) = delete;
  product_precision& operator=(const product_precision&) = delete;

 private:
  struct tf32_use {
    bool matmul = false, convolution = false;
  };
  static void set(tf32_use use) {
    at::globalContext().setAllowTF32CuBLAS(use.matmul);
    at::globalContext().setAllowTF32CuDNN(use.convolution);
  }
  tf32_use before_;
};

}  // namespace
