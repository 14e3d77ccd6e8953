#include "sandbox/interpreter/recurrent_weights.hpp"

#include <algorithm>

#include <ATen/ops/_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/clone.h>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

// Positions in the schemas' arguments, the same for all four operators.
constexpr std::size_t params_at = 2, biases_at = 3, layers_at = 4, bidirectional_at = 7, batch_first_at = 8;

bool stays(const program_plan& plan, int slot) {
  const auto among = [&](const std::vector<int>& slots) { return std::ranges::count(slots, slot) > 0; };
  return slot != no_slot && !among(plan.temporaries) && !among(plan.inputs);
}

void pack(aten_plan& aten, int64_t mode, const std::vector<at::Tensor>& values) {
  auto& params = aten.arguments[params_at];
  const auto flag = [&](std::size_t at) { return aten.arguments[at].constant.toBool(); };
  params.packed.clear();
  for (const int slot : params.slots)
    params.packed.push_back(values[static_cast<std::size_t>(slot)].clone());
  const int64_t weights_of_layer = flag(biases_at) ? 4 : 2;
  const int64_t input_size = params.packed[0].size(1), hidden_size = params.packed[1].size(1);
  // Moves the tensors of the list into one buffer.
  at::_cudnn_rnn_flatten_weight(params.packed, weights_of_layer, input_size, mode, hidden_size, 0,
                                aten.arguments[layers_at].constant.toInt(), flag(batch_first_at),
                                flag(bidirectional_at));
}

}  // namespace

void pack_recurrent_weights(program_plan& plan, const std::vector<at::Tensor>& values) {
  for (auto& s : plan.steps) {
    auto* const aten = std::get_if<aten_plan>(&s.what);
    if (aten == nullptr) continue;
    const auto& name = aten->op.operator_name();
    const auto* op = find_operator(name.name + "." + name.overload_name);
    if (op == nullptr || op->record->traits.cudnn_cell < 0) continue;
    const auto& slots = aten->arguments[params_at].slots;
    if (slots.size() >= 2 && std::ranges::all_of(slots, [&](int slot) { return stays(plan, slot); }))
      pack(*aten, op->record->traits.cudnn_cell, values);
  }
}

}  // namespace cudal1
