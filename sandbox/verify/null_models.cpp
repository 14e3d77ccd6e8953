#include "sandbox/verify/null_models.hpp"

#include <algorithm>

#include "config/base/stopwatch.hpp"
#include "sandbox/program/operators/constant_result.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

constexpr const char* gate_name = "7 null models";
constexpr std::size_t first_draws = 2;

aten_step step_of(std::string op, std::vector<std::pair<std::string, json>> args, std::string result) {
  aten_step s;
  s.op = std::move(op);
  s.args = std::move(args);
  s.results = {std::move(result)};
  return s;
}

json integers(const std::vector<int64_t>& values) {
  json::array items;
  for (const int64_t v : values)
    items.emplace_back(v);
  return json(std::move(items));
}

// The task's declarations, and no steps.
program empty_program(const task& t) {
  program p = t.reference.text;
  p.name = "null_model";
  p.setup.clear();
  p.steps.clear();
  p.outputs.clear();
  return p;
}

std::string fresh_name(const program& p, std::size_t number) {
  std::string name = "null" + std::to_string(number);
  const auto taken = [&](const std::vector<tensor_declaration>& all) {
    return std::ranges::any_of(all, [&](const auto& d) { return d.name == name; });
  };
  while (taken(p.inputs) || taken(p.weights))
    name += "_";
  return name;
}

// The draw with whose expected outputs the model's are compared.
enum class compared_draw { own, previous };

void add(std::vector<null_model>& models, std::string name, program p, compared_draw draw = compared_draw::own) {
  if (auto checked = check_program(std::move(p)); checked)
    models.push_back({std::move(name), std::move(*checked), draw == compared_draw::previous});
}

void add_constant(std::vector<null_model>& models, const task& t, std::string name, double value) {
  program p = empty_program(t);
  for (const auto& output : t.reference.text.outputs) {
    const tensor_type& type = t.reference.types.at(output);
    const json number = is_floating(type.type) ? json(value) : json(static_cast<int64_t>(value));
    p.outputs.push_back(fresh_name(p, p.outputs.size()));
    p.steps.emplace_back(step_of(
        "aten::full", {{"size", integers(type.shape)}, {"fill_value", number}, {"dtype", json(name_of(type.type))}},
        p.outputs.back()));
  }
  add(models, std::move(name), std::move(p));
}

// For every output at a time, each of an input that fits it.
void add_inputs(std::vector<null_model>& models, const task& t) {
  for (const auto& first : t.reference.text.inputs) {
    program p = empty_program(t);
    for (const auto& output : t.reference.text.outputs) {
      const tensor_type& type = t.reference.types.at(output);
      const auto fits = [&](const tensor_declaration& d) {
        return d.type.type == type.type && d.type.numel() == type.numel();
      };
      const auto& all = t.reference.text.inputs;
      const auto found =
          fits(first) ? std::ranges::find(all, first.name, &tensor_declaration::name) : std::ranges::find_if(all, fits);
      if (found == all.end()) break;
      const std::string flat = fresh_name(p, 2 * p.outputs.size()), copy = fresh_name(p, 2 * p.outputs.size() + 1);
      p.steps.emplace_back(
          step_of("aten::reshape", {{"self", json(found->name)}, {"shape", integers(type.shape)}}, flat));
      p.steps.emplace_back(step_of("aten::clone", {{"self", json(flat)}}, copy));
      p.outputs.push_back(copy);
    }
    if (p.outputs.size() == t.reference.text.outputs.size()) add(models, "the input " + first.name, std::move(p));
  }
}

void rename(aten_step& s, const std::string& from, const std::string& to) {
  const auto replace = [&](json& value) {
    if (value.is_string() && value.as_string() == from) value = json(to);
  };
  for (auto& [name, value] : s.args) {
    if (value.is_array())
      for (auto& item : value.as_array())
        replace(item);
    else
      replace(value);
  }
}

void add_halves(std::vector<null_model>& models, const task& t) {
  const auto needed = work_parts::needed_inputs(t);
  const auto& inputs = t.reference.text.inputs;
  const auto is_needed = [&](const tensor_declaration& d) {
    const auto share = needed.find(d.name);
    return is_floating(d.type.type) && share != needed.end() && share->second == 1;
  };
  const tensor_declaration* largest = nullptr;
  for (const auto& d : inputs)
    if (is_needed(d) && (largest == nullptr || d.type.numel() > largest->type.numel())) largest = &d;
  if (largest == nullptr) return;
  for (std::size_t dim = 0; dim < largest->type.shape.size(); ++dim) {
    const int64_t size = largest->type.shape[dim], half = (size + 1) / 2;
    if (size < 2) continue;
    program p = t.reference.text;
    p.name = "null_model";
    const std::string first = fresh_name(p, 0), again = fresh_name(p, 1), repeated = fresh_name(p, 2);
    const auto at = json(static_cast<int64_t>(dim));
    const auto part = [&](int64_t length, const std::string& name) {
      return step_of(
          "aten::narrow",
          {{"self", json(largest->name)}, {"dim", at}, {"start", json(int64_t{0})}, {"length", json(length)}}, name);
    };
    std::vector<step> steps{
        part(half, first), part(size - half, again),
        step_of("aten::cat", {{"tensors", json(json::array{json(first), json(again)})}, {"dim", at}}, repeated)};
    for (auto s : p.steps) {
      rename(std::get<aten_step>(s), largest->name, repeated);
      steps.push_back(std::move(s));
    }
    p.steps = std::move(steps);
    add(models, fmt::format("half of {} along dimension {}", largest->name, dim), std::move(p));
  }
}

expected<judgement> judged(device_session& session, const task& t, const null_model& m, check_plan plan,
                           const verification_options& options, check_report& report) {
  plan.against_previous = m.against_previous;
  plan.repeat_first = false;
  CUDAL1_TRY(report, session.check(m.program, {}, plan));
  return judge(t, plan, report, options);
}

}  // namespace

std::vector<null_model> null_models_of(const task& t, std::optional<double> mean) {
  std::vector<null_model> models;
  add_constant(models, t, "zeros", 0);
  if (mean && *mean != 0) add_constant(models, t, fmt::format("the constant {:.4g}", *mean), *mean);
  add_inputs(models, t);
  add_halves(models, t);
  add(models, "the previous draw's answer", t.reference.text, compared_draw::previous);
  return models;
}

std::string explanation_of(const task& t) {
  if (!t.explanation.empty()) return t.explanation;
  const value_relations known = relations_of(t);
  const auto& outputs = t.reference.text.outputs;
  if (std::ranges::all_of(outputs, [&](const auto& o) { return known.is_constant(o); }))
    return "every output is constant, by the rules of its operators";
  const auto is_input = [&](const std::string& name) {
    return std::ranges::any_of(t.reference.text.inputs, [&](const auto& d) { return d.name == name; });
  };
  if (std::ranges::all_of(outputs, [&](const auto& o) { return is_input(known.origin_of(o)); }))
    return "every output equals an input, by the rules of its operators";
  return "";
}

gate_result null_report::gate() const {
  if (passed.empty()) return {gate_name, true, fmt::format("{} fail", checked)};
  const std::string names = fmt::format("{}", fmt::join(passed, ", "));
  if (!explanation.empty()) return {gate_name, true, fmt::format("{} pass: {}", names, explanation)};
  return {
      gate_name, false,
      fmt::format("null models pass all gates: {}. The task's draws are too weak, or that is its right result: say why "
                  "under \"explanation\" in the task's file",
                  names)};
}

expected<null_report> check_null_models(device_session& session, const task& t, const check_plan& plan,
                                        const verification_options& options) {
  const stopwatch took;
  null_report result;
  check_plan first = plan;
  first.draws.resize(std::min(first.draws.size(), first_draws));
  std::optional<double> mean;
  // Zeros come first, and their check says what the mean is.
  for (const bool with_mean : {false, true}) {
    for (const auto& m : null_models_of(t, mean)) {
      if ((m.name == "zeros") == with_mean) continue;
      check_report report;
      CUDAL1_TRY(auto j, judged(session, t, m, first, options, report));
      if (!with_mean && !report.draws.empty() && !report.draws[0].outputs.empty())
        mean = report.draws[0].outputs[0].expected_mean;
      if (j.result == outcome::correct && plan.draws.size() > first.draws.size()) {
        CUDAL1_TRY(j, judged(session, t, m, plan, options, report));
      }
      ++result.checked;
      if (j.result == outcome::correct) result.passed.push_back(m.name);
    }
  }
  if (!result.passed.empty()) result.explanation = explanation_of(t);
  result.total_ms = took.ms();
  return result;
}

}  // namespace cudal1
