#include "policy/graph/loss_steps.hpp"

#include <algorithm>
#include <string>

#include "policy/graph/program_changes.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

// The `reduction` of a loss of rows: 1 (mean) or 2 (sum); 0 where the step is another one, or has one row only.
int64_t reduction_of_rows(const checked_program& p, std::size_t step) {
  const operator_call& call = p.calls[step];
  if (call.op == nullptr || !call.op->record->traits.averages_rows) return 0;
  const auto& declared = call.op->schema.arguments;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (const auto* operand = std::get_if<tensor_argument>(&call.arguments[i]); i == 0 && operand->type.dim() < 2)
      return 0;
    if (declared[i].name == "reduction") return std::get<int64_t>(std::get<scalar_value>(call.arguments[i]));
  }
  return 0;
}

void add_loss(const checked_program& p, const aten_step& loss, int64_t reduction, std::vector<step>& into) {
  aten_step rows = loss;
  std::erase_if(rows.args, [](const auto& argument) { return argument.first == "reduction"; });
  const json none(0);
  rows.args.emplace_back("reduction", none);  // the last one in the operator's schema
  rows.results = {fresh_name(loss.results[0] + "_of_rows", [&](const auto& n) { return p.types.contains(n); })};
  aten_step whole;
  whole.op = reduction == 1 ? "aten::mean" : "aten::sum";
  whole.args = {{"self", json(rows.results[0])}};
  whole.results = loss.results;
  into.emplace_back(std::move(rows));
  into.emplace_back(std::move(whole));
}

}  // namespace

std::shared_ptr<const task> with_loss_steps(const task& t) {
  const checked_program& p = t.reference;
  std::vector<int64_t> reductions;
  for (std::size_t i = 0; i < p.text.steps.size(); ++i)
    reductions.push_back(reduction_of_rows(p, i));
  // Almost every graph has no such loss: nothing is copied.
  if (std::ranges::count(reductions, 0) == std::ssize(reductions)) return nullptr;
  std::vector<step> steps;
  for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
    if (reductions[i] == 0)
      steps.push_back(p.text.steps[i]);
    else
      add_loss(p, std::get<aten_step>(p.text.steps[i]), reductions[i], steps);
  }
  program text = p.text;
  text.steps = std::move(steps);
  return with_program(t, std::move(text)).value_or(nullptr);
}

}  // namespace cudal1
