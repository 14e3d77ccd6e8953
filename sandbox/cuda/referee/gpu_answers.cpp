#include "sandbox/cuda/referee/gpu_answers.hpp"

#include <algorithm>
#include <array>

#include <ATen/Context.h>

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
  explicit without_cudnn(bool really) : before_(at::globalContext().userEnabledCuDNN()) {
    if (really) at::globalContext().setUserEnabledCuDNN(false);
  }
  ~without_cudnn() { at::globalContext().setUserEnabledCuDNN(before_); }
  without_cudnn(const without_cudnn&) = delete;
  without_cudnn& operator=(const without_cudnn&) = delete;

 private:
  bool before_;
};

// By name, of any overload.
bool is_one_of(const step& s, std::initializer_list<const char*> names) {
  const auto* const aten = std::get_if<aten_step>(&s);
  return aten != nullptr &&
         std::ranges::any_of(names, [&](const char* name) { return aten->op.find(name) != std::string::npos; });
}

// Convolutions and recurrent layers: what does not sound like one is no operator of cuDNN's that has the switch.
bool may_use_tf32(const step& s) {
  return is_one_of(s, {"conv", "lstm", "gru", "rnn"});
}

// cuDNN has few kernels for float64, and looks for one at the first call. Beside it ATen's own convolutions, matrix
// products of unfolded inputs, took half to a tenth of the time on an H100 where they are transposed ones in three
// dimensions, about as long to half in two, and as long to five times as long in three.
bool is_faster_without_cudnn(const program& p) {
  return std::ranges::any_of(p.steps, [](const step& s) { return is_one_of(s, {"conv"}); }) &&
         std::ranges::none_of(p.steps, [](const step& s) {
           return is_one_of(s, {"conv3d", "lstm", "gru", "rnn"});
         });
}

std::vector<tensor_type> types_of(const std::vector<tensor_declaration>& declarations) {
  std::vector<tensor_type> types;
  for (const auto& d : declarations)
    types.push_back(d.type);
  return types;
}

// In the types that a side wants; widened copies live in `copies`. The strides stay as they are.
expected<std::vector<tensor_view>> widened(std::span<const tensor_view> have, const std::vector<tensor_type>& want,
                                           at::Device device, std::vector<at::Tensor>& copies) {
  return without_exceptions("widening", [&]() -> expected<std::vector<tensor_view>> {
    std::vector<tensor_view> views;
    for (std::size_t i = 0; i < have.size(); ++i) {
      if (have[i].type == want[i]) {
        views.push_back(have[i]);
        continue;
      }
      // All of the storage, so that a strided tensor keeps its form.
      const int64_t count = have[i].type.storage_bytes() / size_of(have[i].type.type);
      const auto flat = wrap({contiguous(have[i].type.type, {count}), have[i].data}, device);
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

}  // namespace

expected<answering_programs::side> answering_programs::load_side(checked_program p) const {
  side s;
  s.input_types = types_of(p.text.inputs);
  s.weight_types = types_of(p.text.weights);
  for (const auto& name : p.text.outputs)
    s.output_types.push_back(p.types.at(name));
  const at::Device where = device_->where();
  CUDAL1_TRY(s.run, interpreter::load(std::move(p), nullptr, {.cuda_device = where.is_cpu() ? -1 : where.index()}));
  return s;
}

expected<answering_programs> answering_programs::load(const task& t, referee_device& device) {
  answering_programs result(device);
  const program& text = t.reference.text;
  result.strict_differs_ =
      std::ranges::any_of(text.setup, may_use_tf32) || std::ranges::any_of(text.steps, may_use_tf32);
  CUDAL1_TRY(result.eager_, result.load_side(t.reference));
  CUDAL1_TRY(program wide, to_float64(t.reference.text));
  CUDAL1_TRY(auto checked, check_program(std::move(wide)));
  CUDAL1_TRY(result.exact_, result.load_side(std::move(checked)));
  result.exact_without_cudnn_ = is_faster_without_cudnn(text);
  return result;
}

expected<std::vector<at::Tensor>> answering_programs::run_side(side& s, std::span<const tensor_view> inputs,
                                                               std::span<const tensor_view> weights) const {
  const at::Device where = device_->where();
  std::vector<at::Tensor> copies;
  CUDAL1_TRY(const auto weight_views, widened(weights, s.weight_types, where, copies));
  CUDAL1_TRY(const auto input_views, widened(inputs, s.input_types, where, copies));
  CUDAL1_CHECK(s.run->set_weights(weight_views));
  CUDAL1_CHECK(s.run->call(input_views));
  auto kept = without_exceptions("keeping the answers", [&]() -> expected<std::vector<at::Tensor>> {
    std::vector<at::Tensor> result;
    for (const auto& output : s.run->outputs())
      result.push_back(wrap({output.type, output.data}, where).clone(at::MemoryFormat::Contiguous));
    return result;
  });
  // What is in flight still reads the copies and the outputs.
  CUDAL1_CHECK(device_->synchronise());
  s.run->release();
  return kept;
}

expected<std::vector<at::Tensor>> answering_programs::run_strictly(std::span<const tensor_view> inputs,
                                                                   std::span<const tensor_view> weights) {
  const strict_float32 guard;
  auto strict = run_side(eager_, inputs, weights);
  if (!strict) return fail_in("the task's program in strict float32", strict.error());
  return strict;
}

expected<std::vector<at::Tensor>> answering_programs::run_exactly(std::span<const tensor_view> inputs,
                                                                  std::span<const tensor_view> weights) {
  const without_cudnn guard(exact_without_cudnn_);
  auto exact = run_side(exact_, inputs, weights);
  if (!exact) return fail_in("the task's program in float64", exact.error());
  return exact;
}

expected<draw_answers> answering_programs::run(std::span<const tensor_view> inputs,
                                               std::span<const tensor_view> weights, const tolerances& allowed,
                                               output_comparer& comparer) {
  draw_answers result;
  CUDAL1_TRY(auto exact, run_exactly(inputs, weights));
  auto eager = run_side(eager_, inputs, weights);
  if (!eager) return fail_in("the task's program", eager.error());
  std::vector<at::Tensor> strict;
  if (strict_differs_) {
    CUDAL1_TRY(strict, run_strictly(inputs, weights));
  }
  for (std::size_t i = 0; i < eager->size(); ++i) {
    const tensor_type& type = eager_.output_types[i];
    CUDAL1_TRY(const auto figures, comparer.figures_of(type.type, type.numel(), (*eager)[i].const_data_ptr(),
                                                       strict_differs_ ? strict[i].const_data_ptr() : nullptr,
                                                       exact[i].const_data_ptr(), allowed));
    result.figures.push_back(figures);
  }
  result.bytes = bytes_of(*eager) + bytes_of(exact);
  result.eager = std::move(*eager);
  result.exact = std::move(exact);
  return result;
}

}  // namespace cudal1
