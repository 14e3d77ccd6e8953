#include "policy/model/training/recomputation.hpp"

#include <utility>

namespace cudal1 {

namespace {

using torch::Tensor;
using work_function = std::function<Tensor(const Tensor&)>;

// So that autograd's context can keep it.
struct kept_work : torch::CustomClassHolder {
  explicit kept_work(work_function w) : run(std::move(w)) {}
  work_function run;
};

struct recomputation : torch::autograd::Function<recomputation> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const c10::intrusive_ptr<kept_work>& work) {
    const torch::NoGradGuard no_gradients;
    context->save_for_backward({x});
    context->saved_data["work"] = c10::IValue::make_capsule(work);
    return work->run(x.detach());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto work = c10::static_intrusive_pointer_cast<kept_work>(context->saved_data["work"].toCapsule());
    const auto x = context->get_saved_variables().front().detach().requires_grad_(true);
    const torch::AutoGradMode with_gradients(true);
    torch::autograd::backward({work->run(x)}, {gradients.front()});
    return {x.grad(), Tensor()};
  }
};

}  // namespace

Tensor recomputed(work_function work, const Tensor& x) {
  return recomputation::apply(x, c10::make_intrusive<kept_work>(std::move(work)));
}

}  // namespace cudal1
