#include "policy/model/network_weights.hpp"

#include <dlfcn.h>

namespace cudal1 {

namespace {

// LibTorch's CUDA libraries take long to load, and most programs do not need them.
expected<void> load_cuda() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return fail(errc::unsupported, "LibTorch's CUDA libraries cannot be loaded: {}", dlerror());
  if (!torch::cuda::is_available()) return fail(errc::unsupported, "LibTorch finds no GPU that it can use");
  return {};
}

}  // namespace

expected<torch::Device> device_of(const std::string& name) {
  try {
    const torch::Device device(name);
    if (device.is_cuda()) CUDAL1_CHECK(load_cuda());
    return device;
  } catch (const c10::Error& e) {
    return fail(errc::unsupported, "there is no device {}: {}", name, e.what_without_backtrace());
  }
}

torch::ScalarType scalar_type_of(model_precision precision) {
  if (precision == model_precision::float64) return torch::kDouble;
  return precision == model_precision::bfloat16 ? torch::kBFloat16 : torch::kFloat;
}

expected<torch::Tensor> read_weight(const pretrained_weights& from, const std::string& name,
                                    const std::vector<int64_t>& size, torch::ScalarType type) {
  const dtype as = type == torch::kBFloat16 ? dtype::bfloat16 : dtype::float32;
  auto out = torch::empty(size, type);
  CUDAL1_CHECK(from.read(name, size, as, {static_cast<std::byte*>(out.data_ptr()), out.nbytes()}));
  return out;
}

torch::Tensor merged(const torch::Tensor& weight, const low_rank_pair& change, const adapter_options& options) {
  const auto factor = [](const std::vector<float>& values, int64_t rows, int64_t columns) {
    return torch::from_blob(const_cast<float*>(values.data()), {rows, columns}, torch::kFloat);
  };
  const auto a = factor(change.a, options.rank, weight.size(1)), b = factor(change.b, weight.size(0), options.rank);
  return (weight.to(torch::kFloat) + torch::matmul(b, a) * options.scale()).to(weight.scalar_type());
}

expected<void> read_weights(network& into, const pretrained_weights& from, torch::Device device) {
  for (const auto& w : into.named()) {
    CUDAL1_TRY(const auto read, read_weight(from, w.name, w.size, into.type()));
    *w.tensor = read.to(device);
  }
  into.move_to(device);
  return {};
}

}  // namespace cudal1
