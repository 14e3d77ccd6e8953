#include "sandbox/program/batch_parts.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sandbox/program/memory_need.hpp"
#include "sandbox/program/operators/batch_rules.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

using work_parts::operands_of;

constexpr int64_t most_parts = 256;
constexpr const char* no_such_batch = "the first dimension of no input";

// The program's steps by what they depend on. Inputs of the batch are `places` at first.
class batch_division {
 public:
  batch_division(const checked_program& p, const std::set<std::string>& inputs, int64_t batch, int64_t parts)
      : p_(p), batch_(batch), parts_(parts) {
    for (const auto& name : inputs)
      places_[name] = {};
  }

  expected<program> divide() {
    sort_steps();
    if (in_batch_.empty()) return fail(errc::unsupported, "{}", first_refusal_);
    program out = p_.text;
    out.steps.clear();
    for (const std::size_t i : before_)
      out.steps.push_back(p_.text.steps[i]);
    for (int64_t part = 0; part < parts_; ++part)
      add_part(part, out.steps);
    for (const auto& name : joined_)
      CUDAL1_CHECK(add_join(name, out.steps));
    for (const std::size_t i : after_)
      out.steps.push_back(p_.text.steps[i]);
    return out;
  }

 private:
  void sort_steps() {
    std::set<std::string> late;
    for (std::size_t i = 0; i < p_.text.steps.size(); ++i) {
      const auto& s = std::get<aten_step>(p_.text.steps[i]);
      const auto operands = operands_of(p_.calls[i]);
      const bool is_late = std::ranges::any_of(operands, [&](const auto& n) { return late.contains(n); });
      const bool is_batched = std::ranges::any_of(operands, [&](const auto& n) { return places_.contains(n); });
      if (!is_late && !is_batched) {
        before_.push_back(i);
        continue;
      }
      auto rule = is_late ? fail(errc::unsupported, "") : batch_of_step(s, p_.calls[i], p_.results[i], places_, batch_);
      const bool readable =
          rule && std::ranges::all_of(rule->read_in_parts, [](const auto& r) { return r.second.outer == 1; });
      if (readable) {
        add_batched(i, s, std::move(*rule));
        continue;
      }
      if (!is_late && first_refusal_.empty())
        first_refusal_ = fmt::format("{}: {}", step_label(i, p_.text.steps[i]), rule ? "" : rule.error().message);
      after_.push_back(i);
      late.insert(s.results.begin(), s.results.end());
      std::ranges::copy_if(operands, std::inserter(joined_, joined_.end()),
                           [&](const auto& n) { return places_.contains(n) && !is_input(n); });
    }
    for (const auto& output : p_.text.outputs)
      if (places_.contains(output) && !is_input(output)) joined_.insert(output);
  }

  void add_batched(std::size_t i, const aten_step& s, batched_step rule) {
    for (std::size_t r = 0; r < s.results.size(); ++r)
      if (!s.results[r].empty()) places_[s.results[r]] = rule.results[r];
    in_batch_.emplace_back(i, std::move(rule));
  }

  bool is_input(const std::string& name) const {
    return std::ranges::find(p_.text.inputs, name, &tensor_declaration::name) != p_.text.inputs.end();
  }

  std::string name_in(int64_t part, const std::string& name) const {
    std::string made = fmt::format("{}_part{}", name, part + 1);
    while (p_.types.contains(made))
      made += "_";
    return made;
  }

  // A part of a tensor that is in memory as a whole.
  void add_narrow(int64_t part, const std::string& name, const batch_place& at, std::set<std::string>& made,
                  std::vector<step>& to) const {
    if (!made.insert(name).second) return;
    const int64_t each = batch_ / parts_ * at.inner;
    aten_step s;
    s.op = "aten::narrow";
    s.args = {{"self", json(name)}, {"dim", static_cast<int64_t>(at.dim)}, {"start", part * each}, {"length", each}};
    s.results = {name_in(part, name)};
    to.emplace_back(std::move(s));
  }

  void add_part(int64_t part, std::vector<step>& to) const {
    std::set<std::string> taken;
    for (const auto& [i, rule] : in_batch_) {
      const auto& original = std::get<aten_step>(p_.text.steps[i]);
      for (const auto& name : operands_of(p_.calls[i])) {
        if (places_.contains(name) && is_input(name)) add_narrow(part, name, places_.at(name), taken, to);
        if (const auto read = rule.read_in_parts.find(name); read != rule.read_in_parts.end())
          add_narrow(part, name, read->second, taken, to);
      }
      aten_step s = original;
      rename(part, rule, p_.calls[i], s);
      if (is_reshape(p_.calls[i]) || changes_size(s)) set_shape(i, rule.results.front(), s);
      for (auto& result : s.results)
        if (!result.empty()) result = name_in(part, result);
      to.emplace_back(std::move(s));
    }
  }

  static bool changes_size(const aten_step& s) { return s.op == "aten::expand" || s.op == "aten::broadcast_to"; }

  void rename(int64_t part, const batched_step& rule, const operator_call& call, aten_step& s) const {
    const auto renamed = [&](json& name) {
      if (!name.is_string()) return;
      const std::string text = name.as_string();
      if (places_.contains(text) || rule.read_in_parts.contains(text)) name = json(name_in(part, text));
    };
    const auto& schema = call.op->schema.arguments;
    for (auto& [name, value] : s.args) {
      const auto argument = std::ranges::find(schema, name, &schema_argument::name);
      if (argument == schema.end()) continue;
      if (argument->type == schema_type::tensor) renamed(value);
      if (argument->type == schema_type::tensor_list && value.is_array())
        for (auto& item : value.as_array())
          renamed(item);
    }
  }

  // The step with the shape that a part of its result has.
  void set_shape(std::size_t i, const batch_place& at, aten_step& s) const {
    auto shape = p_.results[i].front().type.shape;
    shape[at.dim] = at.outer * (batch_ / parts_) * at.inner;
    json list = json::make_array();
    for (const int64_t size : shape)
      list.push_back(size);
    const bool resizes = changes_size(s);
    const auto self = std::ranges::find(s.args, "self", [](const auto& a) { return a.first; })->second;
    s.args = {{"self", self}, {resizes ? "size" : "shape", std::move(list)}};
    if (!resizes) s.op = "aten::reshape";
  }

  expected<void> add_join(const std::string& name, std::vector<step>& to) const {
    const batch_place& at = places_.at(name);
    if (at.outer != 1) return fail(errc::unsupported, "the parts of \"{}\" are not one behind the other", name);
    json parts = json::make_array();
    for (int64_t part = 0; part < parts_; ++part)
      parts.push_back(name_in(part, name));
    aten_step s;
    s.op = "aten::cat";
    s.args = {{"tensors", std::move(parts)}, {"dim", static_cast<int64_t>(at.dim)}};
    s.results = {name};
    to.emplace_back(std::move(s));
    return {};
  }

  const checked_program& p_;
  int64_t batch_, parts_;
  std::map<std::string, batch_place> places_;  // of the values that depend on the batch
  std::vector<std::size_t> before_, after_;
  std::vector<std::pair<std::size_t, batched_step>> in_batch_;
  std::set<std::string> joined_;
  std::string first_refusal_;
};

struct choice {
  std::set<std::string> inputs;
  int64_t batch = 0;
};

// The inputs whose first dimension may be the batch: all of one size together, and each of them alone.
std::vector<choice> choices_of(const program& p) {
  std::vector<choice> all;
  std::map<int64_t, std::set<std::string>> by_size;
  for (const auto& input : p.inputs)
    if (input.type.dim() > 0 && input.type.shape[0] > 1) by_size[input.type.shape[0]].insert(input.name);
  for (const auto& [size, names] : by_size) {
    all.push_back({names, size});
    if (names.size() > 1)
      for (const auto& name : names)
        all.push_back({{name}, size});
  }
  return all;
}

}  // namespace

expected<checked_program> in_parts(const checked_program& p, int64_t parts) {
  if (!p.is_pure_aten() || parts < 2)
    return fail(errc::invalid_argument, "{}: a program of ATen steps can be computed in two or more parts",
                p.text.name);
  std::optional<checked_program> best;
  std::string why = fmt::format("{} can be divided by {}", no_such_batch, parts);
  int64_t least = 0;
  for (const auto& chosen : choices_of(p.text)) {
    if (chosen.batch % parts != 0) continue;
    auto divided = batch_division(p, chosen.inputs, chosen.batch, parts).divide();
    auto checked = divided ? check_program(std::move(*divided)) : tl::unexpected(divided.error());
    if (!checked) {
      why = checked.error().message;
      continue;
    }
    const int64_t need = memory_need_of(*checked).bytes;
    if (best && need >= least) continue;
    best = std::move(*checked);
    least = need;
  }
  if (!best) return fail(errc::unsupported, "{}", why);
  return std::move(*best);
}

expected<fitted_program> fit_in_parts(const checked_program& p, int64_t bytes) {
  const std::string too_large = why_too_large(p, bytes);
  if (too_large.empty()) return fitted_program{p, 1};
  std::string parts_do_not_help = "it has too many steps";
  // Each part has most of the steps.
  const int64_t most_steps = program_limits().max_steps, steps = std::ssize(p.text.steps);
  for (int64_t parts = 2; parts <= most_parts && parts * steps <= most_steps; ++parts) {
    auto divided = in_parts(p, parts);
    if (!divided) {
      // Rather which step mixes the batch than that so many parts do not divide it.
      if (parts == 2 || parts_do_not_help.starts_with(no_such_batch)) parts_do_not_help = divided.error().message;
      continue;
    }
    const std::string still = why_too_large(*divided, bytes);
    if (still.empty()) return fitted_program{std::move(*divided), parts};
    parts_do_not_help = fmt::format("in {} parts {}", parts, still);
  }
  return fail(errc::out_of_memory, "{}: {}; it cannot be computed in parts that fit: {}", p.text.name, too_large,
              parts_do_not_help);
}

}  // namespace cudal1
