#include "policy/model/training/trained_parameters.hpp"

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>

#include "sandbox/program/safetensors.hpp"

namespace cudal1 {

using torch::Tensor;

namespace {

constexpr const char* first_moment = "exp_avg/";
constexpr const char* second_moment = "exp_avg_sq/";

torch::optim::AdamWParamState& state_of(torch::optim::AdamW& optimizer, const Tensor& master) {
  auto& kept = optimizer.state()[master.unsafeGetTensorImpl()];
  if (!kept) kept = std::make_unique<torch::optim::AdamWParamState>();
  return static_cast<torch::optim::AdamWParamState&>(*kept);
}

expected<void> read_into(const Tensor& to, const safetensors_file& from, const std::string& name) {
  CUDAL1_TRY(const stored_tensor* stored, from.find(name));
  if (stored->type != dtype::float32 || at::IntArrayRef(stored->shape) != to.sizes())
    return fail(errc::corrupt, "the state of the training has {} in another size or type", name);
  const auto read = torch::empty(to.sizes(), torch::kFloat);
  std::memcpy(read.data_ptr(), stored->bytes.data(), stored->bytes.size());
  to.copy_(read);
  return {};
}

}  // namespace

void trained_parameters::add(std::string name, Tensor read) {
  read.set_requires_grad(true);
  const bool is_master = read.scalar_type() == torch::kFloat;
  auto master = is_master ? read : read.detach().to(torch::kFloat);
  all_.push_back({std::move(name), std::move(read), std::move(master)});
}

int64_t trained_parameters::elements() const {
  int64_t sum = 0;
  for (const auto& p : all_)
    sum += p.master.numel();
  return sum;
}

std::vector<Tensor> trained_parameters::masters() const {
  std::vector<Tensor> out;
  for (const auto& p : all_)
    out.push_back(p.master);
  return out;
}

void trained_parameters::make_optimizer(const optimizer_options& how) {
  if (!optimizer_) optimizer_ = std::make_unique<torch::optim::AdamW>(masters(), torch::optim::AdamWOptions());
  auto& set = static_cast<torch::optim::AdamWOptions&>(optimizer_->param_groups().front().options());
  set.lr(how.rate).weight_decay(how.weight_decay).betas({how.beta1, how.beta2}).eps(how.epsilon);
}

void trained_parameters::forget_gradients() {
  for (auto& p : all_)
    for (Tensor* each : {&p.read, &p.master})
      each->mutable_grad() = Tensor();
}

expected<double> trained_parameters::step(const optimizer_options& how) {
  const torch::NoGradGuard no_gradients;
  for (auto& p : all_) {
    if (p.read.is_same(p.master) || !p.read.grad().defined()) continue;
    p.master.mutable_grad() = p.read.grad().to(torch::kFloat);
    p.read.mutable_grad() = Tensor();
  }
  const double limit = how.gradient_clip > 0 ? how.gradient_clip : std::numeric_limits<double>::infinity();
  const double norm = torch::nn::utils::clip_grad_norm_(masters(), limit);
  if (!std::isfinite(norm)) {
    forget_gradients();
    return fail(errc::invalid_argument, "the gradient of this batch is not finite; a smaller rate may help");
  }
  make_optimizer(how);
  optimizer_->step();
  ++steps_;
  forget_gradients();
  copy_masters();
  return norm;
}

void trained_parameters::copy_masters() {
  const torch::NoGradGuard no_gradients;
  for (auto& p : all_)
    if (!p.read.is_same(p.master)) p.read.copy_(p.master);
}

expected<void> trained_parameters::save(const std::string& path) const {
  stored_tensors out;
  std::deque<Tensor> kept;
  const auto put = [&](const std::string& name, const Tensor& t) {
    kept.push_back(t.detach().to(torch::kCPU, torch::kFloat).contiguous());
    const auto& k = kept.back();
    out[name] = {dtype::float32, k.sizes().vec(), {static_cast<const std::byte*>(k.data_ptr()), k.nbytes()}};
  };
  for (const auto& p : all_) {
    put(p.name, p.master);
    if (!optimizer_) continue;
    const auto& state = state_of(*optimizer_, p.master);
    if (!state.exp_avg().defined()) continue;  // it had no gradient so far
    put(first_moment + p.name, state.exp_avg());
    put(second_moment + p.name, state.exp_avg_sq());
  }
  return write_safetensors(path, out);
}

expected<void> trained_parameters::load(const std::string& path, int64_t steps) {
  const torch::NoGradGuard no_gradients;
  CUDAL1_TRY(const auto file, safetensors_file::open(path));
  optimizer_.reset();
  make_optimizer({});
  for (auto& p : all_) {
    CUDAL1_CHECK(read_into(p.master, file, p.name));
    if (!file.tensors().contains(first_moment + p.name)) continue;
    auto state = std::make_unique<torch::optim::AdamWParamState>();
    state->exp_avg(torch::zeros_like(p.master));
    state->exp_avg_sq(torch::zeros_like(p.master));
    state->step(steps);
    CUDAL1_CHECK(read_into(state->exp_avg(), file, first_moment + p.name));
    CUDAL1_CHECK(read_into(state->exp_avg_sq(), file, second_moment + p.name));
    optimizer_->state()[p.master.unsafeGetTensorImpl()] = std::move(state);
  }
  if (steps == 0) optimizer_.reset();
  steps_ = steps;
  copy_masters();
  return {};
}

}  // namespace cudal1
