#include <ATen/Context.h>

namespace {

// The precision that a step requests of the libraries' matrix products and convolutions, while it runs.
class product_precision {
 public:
  enum precision { float32, tf32 };
  explicit product_precision(precision wanted)
      : before_{at::globalContext().allowTF32CuBLAS(), at::globalContext().allowTF32CuDNN()} {
    set({wanted == tf32, wanted == tf32});
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
