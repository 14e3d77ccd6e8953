#include "policy/graph.hpp"

#include <algorithm>
#include <charconv>

namespace cudal1 {

namespace {

void collect_tensors(const argument_value& value, std::vector<std::string>& out) {
  if (const auto* one = std::get_if<tensor_argument>(&value)) {
    out.push_back(one->name);
  } else if (const auto* several = std::get_if<std::vector<tensor_argument>>(&value)) {
    for (const auto& each : *several)
      out.push_back(each.name);
  }
}

const scalar_value* scalar_argument(const graph_step& s, std::string_view name) {
  const argument_value* found = s.argument(name);
  return found != nullptr ? std::get_if<scalar_value>(found) : nullptr;
}

expected<int> parse_number(std::string_view text) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || value < 0)
    return fail(errc::parse_error, "\"{}\" is not the number of a step", text);
  return value;
}

}  // namespace

const argument_value* graph_step::argument(std::string_view name) const {
  const auto& declared = call->op->schema.arguments;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].name == name) return &call->arguments[i];
  }
  return nullptr;
}

std::vector<std::string> graph_step::operands() const {
  std::vector<std::string> out;
  for (const auto& value : call->arguments)
    collect_tensors(value, out);
  return out;
}

graph::graph(const task& t) : task_(&t), replayed_(t.reference.text.how.graph) {
  const checked_program& p = t.reference;
  for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
    graph_step s;
    s.number = static_cast<int>(i);
    s.text = &std::get<aten_step>(p.text.steps[i]);
    s.call = &p.calls[i];
    for (const auto& result : p.results[i])
      s.result_types.push_back(result.type);
    for (const auto& name : s.text->results) {
      if (!name.empty()) producer_[name] = s.number;
    }
    steps_.push_back(std::move(s));
  }
}

const std::string& graph::resolve(const std::string& value) const {
  const std::string* at = &value;
  for (auto found = alias_.find(*at); found != alias_.end(); found = alias_.find(*at))
    at = &found->second;
  return *at;
}

const tensor_type& graph::type_of(const std::string& value) const {
  const auto made = setup_types_.find(value);
  return made != setup_types_.end() ? made->second : task_->reference.types.at(value);
}

const graph_step* graph::producer(const std::string& value) const {
  const auto found = producer_.find(resolve(value));
  return found == producer_.end() ? nullptr : &step_at(found->second);
}

std::vector<std::string> graph::operands(const graph_step& s) const {
  std::vector<std::string> out;
  if (s.scaling) {
    out = {s.scaling->diagonal, s.scaling->matrix};
  } else if (s.dot) {
    out = {s.dot->values, s.dot->weights};
    if (!s.dot->offset.empty()) out.push_back(s.dot->offset);
  } else {
    out = s.operands();
  }
  for (auto& name : out)
    name = resolve(name);
  return out;
}

std::vector<int> graph::readers(const std::string& value) const {
  std::vector<int> out;
  const std::string& wanted = resolve(value);
  for (const auto& s : steps_) {
    if (s.dropped) continue;
    const auto read = operands(s);
    if (std::find(read.begin(), read.end(), wanted) != read.end()) out.push_back(s.number);
  }
  return out;
}

bool graph::is_output(const std::string& value) const {
  const std::string& wanted = resolve(value);
  const auto& outputs = task_->reference.text.outputs;
  return std::any_of(outputs.begin(), outputs.end(), [&](const auto& name) { return resolve(name) == wanted; });
}

bool graph::is_parameter(const std::string& value) const {
  return !producer_.contains(resolve(value));
}

std::string graph::fresh_name(const std::string& name) const {
  std::string out = name;
  for (int n = 2; task_->reference.types.contains(out) || setup_types_.contains(out); ++n)
    out = name + std::to_string(n);
  return out;
}

void graph::add_setup(aten_step s, tensor_type type) {
  setup_types_[s.results.at(0)] = std::move(type);
  setup_.push_back(std::move(s));
}

expected<std::vector<int>> graph::order() const {
  // Kahn's algorithm over steps and groups; among what is ready the one with the lowest step goes first, so that the
  // order is the task's own wherever it can be.
  std::map<int, std::vector<int>> members;  // unit -> steps
  const auto unit_of = [&](const graph_step& s) { return s.group >= 0 ? -1 - s.group : s.number; };
  for (const auto& s : steps_) {
    if (!s.dropped) members[unit_of(s)].push_back(s.number);
  }
  std::map<int, std::set<int>> waits_for;
  for (const auto& [unit, list] : members) {
    for (const int number : list) {
      for (const auto& value : operands(step_at(number))) {
        const graph_step* made_by = producer(value);
        if (made_by != nullptr && unit_of(*made_by) != unit) waits_for[unit].insert(unit_of(*made_by));
      }
    }
  }
  std::vector<int> out;
  std::set<int> done;
  while (out.size() < members.size()) {
    int next = 0;
    int lowest = -1;
    for (const auto& [unit, list] : members) {
      if (done.contains(unit)) continue;
      const auto& needs = waits_for[unit];
      const bool ready = std::all_of(needs.begin(), needs.end(), [&](int n) { return done.contains(n); });
      // A group stands where its last step stood: what it needs comes before, what needs it after.
      if (ready && (lowest < 0 || list.back() < lowest)) {
        lowest = list.back();
        next = unit;
      }
    }
    if (lowest < 0)
      return fail(errc::invalid_argument, "these groups would need each other's results: no order runs them");
    done.insert(next);
    out.push_back(next);
  }
  return out;
}

std::string print_steps(const std::vector<int>& steps) {
  std::string out;
  for (std::size_t i = 0; i < steps.size();) {
    std::size_t last = i;
    while (last + 1 < steps.size() && steps[last + 1] == steps[last] + 1)
      ++last;
    if (!out.empty()) out += '+';
    out += std::to_string(steps[i]);
    if (last > i) out += ".." + std::to_string(steps[last]);
    i = last + 1;
  }
  return out;
}

expected<std::vector<int>> parse_steps(std::string_view text) {
  std::vector<int> out;
  while (true) {
    const auto plus = text.find('+');
    const std::string_view part = text.substr(0, plus);
    const auto dots = part.find("..");
    CUDAL1_TRY(const int first, parse_number(part.substr(0, dots)));
    int last = first;
    if (dots != std::string_view::npos) {
      CUDAL1_TRY(last, parse_number(part.substr(dots + 2)));
    }
    if (last < first || last - first > 4096 || (!out.empty() && first <= out.back()))
      return fail(errc::parse_error, "steps \"{}\" should ascend, as in 2..4+7", text);
    for (int n = first; n <= last; ++n)
      out.push_back(n);
    if (plus == std::string_view::npos) return out;
    text.remove_prefix(plus + 1);
  }
}

std::optional<int64_t> integer_argument(const graph_step& s, std::string_view name) {
  const scalar_value* v = scalar_argument(s, name);
  if (v == nullptr || !std::holds_alternative<int64_t>(*v)) return std::nullopt;
  return std::get<int64_t>(*v);
}

std::optional<double> number_argument(const graph_step& s, std::string_view name) {
  const scalar_value* v = scalar_argument(s, name);
  if (v == nullptr) return std::nullopt;
  return std::visit([](auto x) { return static_cast<double>(x); }, *v);
}

std::optional<bool> boolean_argument(const graph_step& s, std::string_view name) {
  const scalar_value* v = scalar_argument(s, name);
  if (v == nullptr || !std::holds_alternative<bool>(*v)) return std::nullopt;
  return std::get<bool>(*v);
}

std::optional<std::string> tensor_argument_name(const graph_step& s, std::string_view name) {
  const argument_value* found = s.argument(name);
  const auto* t = found != nullptr ? std::get_if<tensor_argument>(found) : nullptr;
  if (t == nullptr) return std::nullopt;
  return t->name;
}

std::optional<std::string> string_argument(const graph_step& s, std::string_view name) {
  const argument_value* found = s.argument(name);
  const auto* text = found != nullptr ? std::get_if<std::string>(found) : nullptr;
  if (text == nullptr) return std::nullopt;
  return *text;
}

std::optional<std::vector<int64_t>> integers_argument(const graph_step& s, std::string_view name) {
  const argument_value* found = s.argument(name);
  const auto* list = found != nullptr ? std::get_if<std::vector<int64_t>>(found) : nullptr;
  if (list == nullptr) return std::nullopt;
  return *list;
}

}  // namespace cudal1
