#include "sandbox/cpu/referee/cpu_reference.hpp"

#include <algorithm>

#include "sandbox/referee/draws.hpp"
#include "sandbox/referee/elements.hpp"

namespace cudal1 {
namespace {

// The tensors in the types that a side wants; widened copies live in `copies`.
std::vector<tensor_view> widened(const mapped_tensors& memory, const std::vector<tensor_type>& have,
                                 const std::vector<tensor_type>& want, answer& copies) {
  std::vector<tensor_view> views;
  for (std::size_t i = 0; i < have.size(); ++i) {
    if (have[i] == want[i]) {
      views.push_back({want[i], memory.data(i)});
      continue;
    }
    const int64_t count = have[i].storage_bytes() / size_of(have[i].type);
    auto& copy = copies.emplace_back(static_cast<std::size_t>(want[i].storage_bytes()), boost::container::default_init);
    constexpr int64_t block = 1024;
    double values[block];
    for (int64_t first = 0; first < count; first += block) {
      const int64_t part = std::min(block, count - first);
      load_elements(have[i].type, memory.data(i), first, part, values);
      store_elements(want[i].type, copy.data(), first, part, values);
    }
    views.push_back({want[i], copy.data()});
  }
  return views;
}

std::vector<tensor_type> types_of(const std::vector<tensor_declaration>& declarations) {
  std::vector<tensor_type> types;
  for (const auto& d : declarations)
    types.push_back(d.type);
  return types;
}

}  // namespace

expected<reference_program::side> reference_program::load_side(checked_program p) {
  side s;
  s.input_types = types_of(p.text.inputs);
  s.weight_types = types_of(p.text.weights);
  for (const auto& name : p.text.outputs)
    s.output_types.push_back(p.types.at(name));
  CUDAL1_TRY(s.run, interpreter::load(std::move(p), nullptr));
  return s;
}

expected<reference_program> reference_program::load(const task& t) {
  reference_program result;
  CUDAL1_TRY(result.eager_, load_side(t.reference));
  CUDAL1_TRY(program wide, to_float64(t.reference.text));
  CUDAL1_TRY(auto checked, check_program(std::move(wide)));
  CUDAL1_TRY(result.exact_, load_side(std::move(checked)));
  result.input_types_ = result.eager_.input_types;
  result.weight_types_ = result.eager_.weight_types;
  return result;
}

expected<answer> reference_program::run_side(side& s, const mapped_tensors& inputs,
                                             const mapped_tensors& weights) const {
  answer copies;
  const auto weight_views = widened(weights, weight_types_, s.weight_types, copies);
  const auto input_views = widened(inputs, input_types_, s.input_types, copies);
  arena_begin_call(system_seed());
  CUDAL1_CHECK(s.run->set_weights(weight_views));
  CUDAL1_CHECK(s.run->call(input_views));
  answer result;
  for (const auto& output : s.run->outputs()) {
    auto& flat = result.emplace_back(static_cast<std::size_t>(output.type.bytes()), boost::container::default_init);
    gather(output.type, static_cast<const std::byte*>(output.data), flat.data());
  }
  s.run->release();
  return result;
}

expected<reference_program::answers> reference_program::run(const mapped_tensors& inputs,
                                                            const mapped_tensors& weights) {
  answers result;
  auto eager = run_side(eager_, inputs, weights);
  if (!eager) return fail_in("the task's program", eager.error());
  auto exact = run_side(exact_, inputs, weights);
  if (!exact) return fail_in("the task's program in float64", exact.error());
  return answers{std::move(*eager), std::move(*exact)};
}

}  // namespace cudal1
