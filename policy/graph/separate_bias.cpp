#include "policy/graph/separate_bias.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "policy/graph/program_changes.hpp"
#include "policy/graph/step_arguments.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

bool has_bias(const checked_program& p, std::size_t step) {
  const operator_call& call = p.calls[step];
  if (call.op == nullptr || call.op->record->kind != operator_kind::convolution) return false;
  if (call.op->record->traits.changes.what != effect::mixed_linear) return false;  // more than a convolution
  const json* bias = argument_of(std::get<aten_step>(p.text.steps[step]), "bias");
  return bias != nullptr && bias->is_string();
}

class bias_writer {
 public:
  explicit bias_writer(const checked_program& p) : p_(&p), out_(p) {}

  void add(const step& s) { out_.add(s); }

  void add_convolution(const aten_step& s) {
    const json bias = *argument_of(s, "bias"), none, result(out_.new_name(s.results[0] + "_without_bias"));
    aten_step convolution = s, sum;
    std::ranges::find(convolution.args, "bias", [](const auto& a) { return a.first; })->second = none;
    convolution.results = {result.as_string()};
    const json along(by_channel(bias.as_string(), argument_of(s, "weight")->as_string()));
    sum.op = "aten::add.Tensor";
    sum.args = {{"self", result}, {"other", along}};
    sum.results = s.results;
    out_.add(std::move(convolution));
    out_.add(std::move(sum));
  }

  program take() { return out_.take(); }

 private:
  // The bias as it is added to the result, which has as many dimensions behind the channels as the weight has.
  std::string by_channel(const std::string& bias, const std::string& weight) {
    const int64_t behind = p_->types.at(weight).dim() - 2;
    auto& known = views_[{bias, behind}];
    if (!known.empty()) return known;
    json::array shape{json(p_->types.at(bias).numel())};
    shape.resize(static_cast<std::size_t>(behind) + 1, json(1));
    const json self(bias), wanted(std::move(shape));
    aten_step view;
    view.op = "aten::reshape";
    view.args = {{"self", self}, {"shape", wanted}};
    view.results = {known = out_.new_name(bias + "_by_channel")};
    out_.add(std::move(view));
    return known;
  }

  const checked_program* p_;
  program_changes out_;
  std::map<std::pair<std::string, int64_t>, std::string> views_;
};

}  // namespace

std::shared_ptr<const task> with_separate_bias(const task& t) {
  const checked_program& p = t.reference;
  bias_writer steps(p);
  bool found = false;
  for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
    if (has_bias(p, i)) {
      steps.add_convolution(std::get<aten_step>(p.text.steps[i]));
      found = true;
    } else {
      steps.add(p.text.steps[i]);
    }
  }
  if (!found) return nullptr;
  return with_program(t, steps.take()).value_or(nullptr);
}

}  // namespace cudal1
