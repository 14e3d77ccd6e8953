#include "sandbox/referee/reference_program.hpp"

#include <algorithm>
#include <initializer_list>

#include "sandbox/program/batch_parts.hpp"
#include "sandbox/program/memory_need.hpp"

namespace cudal1 {
namespace {

// By name, of any overload.
bool is_one_of(const step& s, std::initializer_list<const char*> names) {
  const auto* const aten = std::get_if<aten_step>(&s);
  return aten != nullptr &&
         std::ranges::any_of(names, [&](const char* name) { return aten->op.find(name) != std::string::npos; });
}

// Convolutions and recurrent layers, by their names: only cuDNN's operators use TF32 by default.
bool may_use_tf32(const step& s) {
  return is_one_of(s, {"conv", "lstm", "gru", "rnn"});
}

// cuDNN has few kernels for float64, and searches for one at the first call. On an H100, ATen's own convolutions
// (matrix products of unfolded inputs) took 0.1 to 0.5 times as long as cuDNN's for transposed ones in three
// dimensions, 0.5 to 1 times in two, and 1 to 5 times for ordinary ones in three.
bool computes_faster_without_cudnn(const program& p) {
  return std::ranges::any_of(p.steps, [](const step& s) { return is_one_of(s, {"conv"}); }) &&
         std::ranges::none_of(p.steps, [](const step& s) {
           return is_one_of(s, {"conv3d", "lstm", "gru", "rnn"});
         });
}

// `whole`: what `p` computes in parts, or the same program.
expected<reference_program::side> load_side(const checked_program& whole, checked_program p, int cuda_device) {
  reference_program::side s;
  s.input_types = types_of(p.text.inputs);
  s.weight_types = types_of(p.text.weights);
  for (const auto& name : p.text.outputs)
    s.output_types.push_back(whole.types.at(name));
  CUDAL1_TRY(s.run, interpreter::load(std::move(p), nullptr, {.cuda_device = cuda_device}));
  return s;
}

}  // namespace

expected<void> reference_program::load_within(int64_t bytes) {
  CUDAL1_TRY(auto shipped, fit_in_parts(whole_shipped_, bytes));
  auto exact = fit_in_parts(whole_exact_, bytes);
  if (!exact) return fail_in("in float64", exact.error());
  const int64_t need = std::max(memory_need_of(shipped.what).bytes, memory_need_of(exact->what).bytes);
  const int64_t parts = std::max(shipped.parts, exact->parts);
  CUDAL1_TRY(shipped_, load_side(whole_shipped_, std::move(shipped.what), cuda_device_));
  CUDAL1_TRY(exact_, load_side(whole_exact_, std::move(exact->what), cuda_device_));
  need_ = need;
  parts_ = parts;
  return {};
}

expected<void> reference_program::use_less_memory() {
  return load_within(std::max<int64_t>(need_ / 2, 1));
}

expected<reference_program> reference_program::load(const task& t, int cuda_device, int64_t bytes) {
  const program& text = t.reference.text;
  CUDAL1_TRY(program wide, to_float64(text));
  CUDAL1_TRY(auto checked, check_program(std::move(wide)));
  reference_program result(t.reference, std::move(checked), cuda_device);
  CUDAL1_CHECK(result.load_within(bytes));
  result.strict_differs_ =
      std::ranges::any_of(text.setup, may_use_tf32) || std::ranges::any_of(text.steps, may_use_tf32);
  result.faster_without_cudnn_ = computes_faster_without_cudnn(text);
  return result;
}

}  // namespace cudal1
