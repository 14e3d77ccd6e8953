#include "sandbox/cuda/referee/gpu_expected_outputs.hpp"

#include <algorithm>
#include <optional>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "config/base/stopwatch.hpp"
#include "sandbox/cuda/referee/without_exceptions.hpp"
#include "sandbox/interpreter/boxed_values.hpp"

namespace cudal1 {
namespace {

// No TensorFloat-32 while this lives. Matrix products do not use it as LibTorch ships.
class strict_float32 {
 public:
  strict_float32() : convolutions_(at::globalContext().allowTF32CuDNN()) {
    at::globalContext().setAllowTF32CuDNN(false);
  }
  ~strict_float32() { at::globalContext().setAllowTF32CuDNN(convolutions_); }
  strict_float32(const strict_float32&) = delete;
  strict_float32& operator=(const strict_float32&) = delete;

 private:
  bool convolutions_;
};

class without_cudnn {
 public:
  without_cudnn() : before_(at::globalContext().userEnabledCuDNN()) { at::globalContext().setUserEnabledCuDNN(false); }
  ~without_cudnn() { at::globalContext().setUserEnabledCuDNN(before_); }
  without_cudnn(const without_cudnn&) = delete;
  without_cudnn& operator=(const without_cudnn&) = delete;

 private:
  bool before_;
};

// All floats of a flat tensor, moved to a neighbour; `together` consecutive ones the same way (moved_together).
at::Tensor moved_tensor(const at::Tensor& t, dtype type, int64_t together) {
  const int64_t size = t.numel(), each = std::clamp<int64_t>(together, 1, std::max<int64_t>(size, 1));
  const auto ways = at::empty({(size + each - 1) / each}, t.options()).bernoulli_().mul_(2).sub_(1);
  return t + t * ways.repeat_interleave(each).narrow(0, 0, size) * unit_in_last_place(type);
}

// The tensors in the types that a side needs, with the same strides; `copies` owns the widened ones. `moved`: 0, or how
// many elements of an input move together.
expected<std::vector<tensor_view>> widened(std::span<const tensor_view> have, const std::vector<tensor_type>& want,
                                           int64_t moved, at::Device device, std::vector<at::Tensor>& copies) {
  return without_exceptions("widening", [&]() -> expected<std::vector<tensor_view>> {
    std::vector<tensor_view> views;
    for (std::size_t i = 0; i < have.size(); ++i) {
      const bool moves = moved != 0 && is_floating(have[i].type.type);
      if (have[i].type == want[i] && !moves) {
        views.push_back(have[i]);
        continue;
      }
      // All of the storage, so that a strided tensor keeps its layout.
      const int64_t count = have[i].type.storage_bytes() / size_of(have[i].type.type);
      auto flat = wrap({contiguous(have[i].type.type, {count}), have[i].data}, device);
      if (moves) flat = moved_tensor(flat, have[i].type.type, moved);
      copies.push_back(flat.to(scalar_type_of(want[i].type)));
      views.push_back({want[i], copies.back().mutable_data_ptr()});
    }
    return views;
  });
}

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const auto& t : tensors)
    bytes += static_cast<int64_t>(t.nbytes());
  return bytes;
}

expected<std::vector<at::Tensor>> run_side(reference_program::side& s, std::span<const tensor_view> inputs,
                                           std::span<const tensor_view> weights, int64_t moved,
                                           referee_device& device) {
  const at::Device where = device.where();
  std::vector<at::Tensor> copies;
  CUDAL1_TRY(const auto weight_views, widened(weights, s.weight_types, 0, where, copies));
  CUDAL1_TRY(const auto input_views, widened(inputs, s.input_types, moved, where, copies));
  CUDAL1_CHECK(s.run->set_weights(weight_views));
  CUDAL1_CHECK(s.run->call(input_views));
  auto kept = without_exceptions("keeping the expected outputs", [&]() -> expected<std::vector<at::Tensor>> {
    std::vector<at::Tensor> result;
    for (const auto& output : s.run->outputs())
      result.push_back(wrap({output.type, output.data}, where).clone(at::MemoryFormat::Contiguous));
    return result;
  });
  // Kernels in flight still read the copies and the outputs.
  CUDAL1_CHECK(device.synchronise());
  s.run->release();
  return kept;
}

}  // namespace

expected<std::shared_ptr<gpu_expected_outputs>> compute_expected_outputs(
    reference_program& program, std::span<const tensor_view> inputs, std::span<const tensor_view> weights,
    draw_kind kind, const tolerances& allowed, referee_device& device, output_comparer& comparer) {
  const auto run = [&](reference_program::side& side, const char* name,
                       int64_t moved = 0) -> expected<std::vector<at::Tensor>> {
    auto outputs = run_side(side, inputs, weights, moved, device);
    if (!outputs) return fail_in(name, outputs.error());
    return outputs;
  };
  auto result = std::make_shared<gpu_expected_outputs>();
  {
    std::optional<without_cudnn> guard;
    if (program.is_faster_without_cudnn()) guard.emplace();
    CUDAL1_TRY(result->exact, run(program.exact(), "the task's program in float64"));
  }
  const stopwatch reference;
  CUDAL1_TRY(result->shipped, run(program.shipped(), "the task's program"));
  result->reference_ms = reference.ms();
  std::vector<at::Tensor> strict;
  if (program.strict_differs()) {
    const strict_float32 guard;
    CUDAL1_TRY(strict, run(program.shipped(), "the task's program in strict float32"));
  }
  for (std::size_t i = 0; i < result->shipped.size(); ++i) {
    const tensor_type& type = program.output_types()[i];
    CUDAL1_TRY(const auto statistics,
               comparer.statistics_of({.type = type.type,
                                       .elements = type.numel(),
                                       .eager = result->shipped[i].const_data_ptr(),
                                       .exact = result->exact[i].const_data_ptr()},
                                      strict.empty() ? nullptr : strict[i].const_data_ptr(), kind, allowed));
    result->statistics.push_back(statistics);
  }
  result->bytes = bytes_of(result->shipped) + bytes_of(result->exact);
  result->allowed = allowed;
  return result;
}

expected<std::shared_ptr<rounding_distances>> find_rounding_distances(reference_program& program,
                                                                      std::span<const tensor_view> inputs,
                                                                      std::span<const tensor_view> weights,
                                                                      const gpu_expected_outputs& outputs,
                                                                      referee_device& device) {
  const auto& types = program.output_types();
  std::vector<at::Tensor> largest(types.size());
  for (const int64_t together : moved_together) {
    CUDAL1_TRY(const auto moved, run_side(program.shipped(), inputs, weights, together, device));
    CUDAL1_CHECK(without_exceptions("distances on moved inputs", [&]() -> expected<void> {
      for (std::size_t i = 0; i < types.size(); ++i) {
        if (!is_floating(types[i].type)) continue;
        const auto off = (moved[i].to(at::kDouble) - outputs.exact[i]).abs().nan_to_num(0, 0, 0).to(at::kFloat);
        largest[i] = largest[i].defined() ? at::maximum(largest[i], off) : off;
      }
      return {};
    }));
  }
  auto result = std::make_shared<rounding_distances>();
  CUDAL1_CHECK(without_exceptions("fetching distances", [&]() -> expected<void> {
    for (const auto& tensor : largest) {
      auto& values = result->of_outputs.emplace_back();
      if (!tensor.defined()) continue;
      const auto here = tensor.cpu();
      values.assign(here.const_data_ptr<float>(), here.const_data_ptr<float>() + here.numel());
    }
    return {};
  }));
  return result;
}

}  // namespace cudal1
