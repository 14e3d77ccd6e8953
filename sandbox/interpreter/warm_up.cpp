#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <c10/core/InferenceMode.h>

#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/interpreter/own_operators.hpp"
#include "sandbox/program/operators/operators.hpp"

namespace cudal1 {

void warm_up() {
  at::set_num_threads(1);  // a parallel region would start threads, which a fork does not copy
  const c10::InferenceMode no_autograd;
  const auto a = at::randn({64, 64});
  at::sum(at::softmax(at::mm(a, a), 1));
  at::conv2d(at::randn({1, 3, 16, 16}), at::randn({4, 3, 3, 3}));
  define_own_operators();
}

}  // namespace cudal1
