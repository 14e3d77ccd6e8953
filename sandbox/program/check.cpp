#include "sandbox/program/check.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/canonical.hpp"
#include "sandbox/program/form.hpp"
#include "sandbox/program/launch_rules.hpp"
#include "sandbox/program/near_miss.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

enum class origin { input, weight, step };

struct value_state {
  origin from = origin::step;
  bool in_setup = false;
  bool written = true;   // false for an allocation that no kernel has written yet
  std::string bound_at;  // "step 1 (alloc y)", "inputs[0] (x)"
  std::string base;      // the value that owns the memory; its own name if it does
  std::string seen_by;   // for a base: the first view of it
};

// Makes the steps equal to those of the printed and re-read program: arguments in the schema's order, reals as they are
// printed, floats rounded, and default values in the members that an argument's kind does not use.
void canonicalize(std::vector<step>& steps) {
  for (auto& s : steps) {
    if (auto* call = std::get_if<aten_step>(&s)) {
      sort_arguments(*call);
      for (auto& [name, value] : call->args) {
        const auto fix = [](json& v) {
          if (v.is_double() && std::isnan(v.as_double())) v = "nan";
          if (v.is_double() && std::isinf(v.as_double())) v = v.as_double() > 0 ? "inf" : "-inf";
        };
        fix(value);
        if (value.is_array()) std::for_each(value.as_array().begin(), value.as_array().end(), fix);
      }
    } else if (auto* launch = std::get_if<launch_step>(&s)) {
      for (auto& a : launch->args) {
        launch_argument used;
        used.kind = a.kind;
        if (a.is_tensor()) used.tensor = std::move(a.tensor);
        if (a.is_tensor()) used.map = std::move(a.map);
        if (a.kind == argument_kind::i32 || a.kind == argument_kind::i64) used.integer = a.integer;
        if (a.kind == argument_kind::f64) used.real = a.real;
        if (a.kind == argument_kind::f32) used.real = static_cast<double>(static_cast<float>(a.real));
        a = std::move(used);
      }
    }
  }
}

// The overloads of an operator that is named without one; else the listed one that is closest to a misspelt name.
std::string operators_near(const std::string& name) {
  std::vector<std::string> overloads;
  for (auto i = operator_table().lower_bound(name + "."); i != operator_table().end(); ++i) {
    if (!i->first.starts_with(name + ".")) break;
    overloads.push_back(i->first);
  }
  if (!overloads.empty()) return fmt::format("; its overloads are {}", fmt::join(overloads, ", "));
  const auto last = name.substr(name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
  if (name.starts_with("torch.") && find_operator("aten::" + last))
    return fmt::format("; did you mean \"aten::{}\"?", last);
  return did_you_mean(name, operator_table(), [](const auto& entry) -> const std::string& { return entry.first; });
}

class checker {
 public:
  checker(checked_program& out, const program_limits& limits) : out_(out), p_(out.text), limits_(limits) {}

  expected<void> run() {
    CUDAL1_CHECK(check_counts());
    note_later_names();
    CUDAL1_CHECK(declare(p_.inputs, "inputs", origin::input));
    CUDAL1_CHECK(declare(p_.weights, "weights", origin::weight));
    CUDAL1_TRY(kernels_, kernel_table::read(p_.source));
    section_ = program_section::setup;
    CUDAL1_CHECK(check_steps(p_.setup, out_.setup_calls, out_.setup_results));
    section_ = program_section::steps;
    CUDAL1_CHECK(check_steps(p_.steps, out_.calls, out_.results));
    return check_outputs();
  }

 private:
  expected<void> check_counts() const {
    const auto steps = static_cast<int64_t>(p_.setup.size() + p_.steps.size());
    if (steps > limits_.max_steps)
      return fail(errc::invalid_program, "steps: {} are above the limit of {}", steps, limits_.max_steps);
    if (static_cast<int64_t>(p_.source.size()) > limits_.max_text_bytes)
      return fail(errc::invalid_program, "source: {} bytes are above the limit of {}", p_.source.size(),
                  limits_.max_text_bytes);
    if (p_.outputs.empty())
      return fail(errc::invalid_program, "outputs: there are none; write the names of the results, such as [\"y\"]");
    return {};
  }

  // Where each name is bound, for the message about one that is used too early.
  void note_later_names() {
    const auto note = [&](const std::vector<step>& steps, program_section section) {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const auto label = step_label(i, steps[i], section);
        if (const auto* alloc = std::get_if<alloc_step>(&steps[i])) later_.emplace(alloc->name, label);
        if (const auto* call = std::get_if<aten_step>(&steps[i]))
          for (const auto& name : call->results)
            later_.emplace(name, label);
      }
    };
    note(p_.setup, program_section::setup);
    note(p_.steps, program_section::steps);
  }

  std::string why_unknown(const std::string& name) const {
    if (const auto found = later_.find(name); found != later_.end())
      return fmt::format(" before this step; {} binds it later", found->second);
    return did_you_mean(name, states_, [](const auto& entry) -> const std::string& { return entry.first; });
  }

  expected<value_state*> known(const std::string& name, const std::string& where) {
    if (const auto found = states_.find(name); found != states_.end()) return &found->second;
    return fail(errc::invalid_program, "{}: there is no value \"{}\"{}", where, name, why_unknown(name));
  }

  expected<void> bind(const std::string& name, tensor_type type, value_state state, const std::string& where) {
    if (const auto taken = states_.find(name); taken != states_.end())
      return fail(errc::invalid_program, "{}: the name \"{}\" is taken by {}; every value needs a name of its own",
                  where, name, taken->second.bound_at);
    CUDAL1_CHECK(check_size(type, where, state));
    if (state.base.empty()) {
      state.base = name;
    } else {
      out_.view_of.emplace(name, state.base);
      auto& base = states_.at(state.base);
      if (base.seen_by.empty()) base.seen_by = name;
    }
    states_.emplace(name, std::move(state));
    out_.types.emplace(name, std::move(type));
    return {};
  }

  // Only values that own their memory count towards the total.
  expected<void> check_size(const tensor_type& type, const std::string& where, const value_state& state) {
    int64_t extent = size_of(type.type);
    for (const auto size : type.shape) {
      if (size < 0) return fail(errc::invalid_program, "{}: the size {} in {} is negative", where, size, type.text());
      extent = saturating_multiply(extent, std::max<int64_t>(size, 1));
    }
    // A broadcast tensor has more elements than memory; an empty tensor's other sizes count too, as ATen multiplies
    // them.
    const auto bytes = std::max(extent, type.storage_bytes());
    if (bytes > limits_.max_tensor_bytes)
      return fail(errc::invalid_program, "{}: {} has more than {} bytes, the limit for a tensor", where, type.text(),
                  limits_.max_tensor_bytes);
    if (state.base.empty()) total_bytes_ = saturating_add(total_bytes_, type.storage_bytes());
    if (total_bytes_ > limits_.max_total_bytes)
      return fail(errc::invalid_program, "{}: with {} all tensors together have more than {} bytes, the limit", where,
                  type.text(), limits_.max_total_bytes);
    return {};
  }

  // Elements of an input or a weight must not overlap in memory: in the order of strides, each dimension must step over
  // all smaller ones.
  static expected<void> check_no_overlap(const tensor_type& type, const std::string& where) {
    if (type.is_contiguous()) return {};
    std::vector<std::size_t> order(type.shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return type.strides[a] < type.strides[b]; });
    int64_t inside = 1;  // extent of the dimensions so far, in elements
    for (const auto d : order) {
      if (type.shape[d] == 1) continue;
      if (type.strides[d] < inside)
        return fail(errc::invalid_program, "{}, strides[{}]: elements overlap in memory with a stride of {}", where, d,
                    type.strides[d]);
      inside = saturating_add(inside, saturating_multiply(type.strides[d], type.shape[d] - 1));
    }
    return {};
  }

  expected<void> declare(const std::vector<tensor_declaration>& declarations, std::string_view list, origin from) {
    for (std::size_t i = 0; i < declarations.size(); ++i) {
      const auto where = declaration_label(list, i, declarations[i].name);
      value_state state;
      state.from = from;
      state.bound_at = where;
      CUDAL1_CHECK(bind(declarations[i].name, declarations[i].type, std::move(state), where));
      CUDAL1_CHECK(check_no_overlap(declarations[i].type, where));
    }
    return {};
  }

  expected<void> check_steps(const std::vector<step>& steps, std::vector<operator_call>& calls,
                             std::vector<std::vector<operator_result>>& results) {
    calls.resize(steps.size());
    results.resize(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      label_ = step_label(i, steps[i], section_);
      if (const auto* alloc = std::get_if<alloc_step>(&steps[i])) {
        auto state = made_here();
        state.written = false;
        CUDAL1_CHECK(bind(alloc->name, alloc->type, std::move(state), label_));
      } else if (const auto* launch = std::get_if<launch_step>(&steps[i])) {
        CUDAL1_CHECK(check_launch(*launch));
        if (launch->programmatic) CUDAL1_CHECK(check_overlap(steps, calls, i));
      } else {
        CUDAL1_CHECK(check_aten(std::get<aten_step>(steps[i]), calls[i], results[i]));
      }
    }
    return {};
  }

  value_state made_here() const {
    value_state state;
    state.in_setup = section_ == program_section::setup;
    state.bound_at = label_;
    return state;
  }

  expected<void> check_read(const std::string& name, const std::string& where) {
    CUDAL1_TRY(const value_state* state, known(name, where));
    const auto& base = states_.at(state->base);
    if (section_ == program_section::setup && base.from == origin::input)
      return fail(errc::invalid_program, "{}: setup runs once and may read weights only, and \"{}\" is {}", where, name,
                  state->base == name ? "an input" : "a view of an input");
    if (!base.written)
      return fail(errc::invalid_program, "{}: \"{}\" is read before any kernel has written it ({})", where, name,
                  base.bound_at);
    return {};
  }

  expected<void> check_write(const std::string& name, const std::string& where) {
    if (!states_.contains(name) && !later_.contains(name))
      return fail(errc::invalid_program, "{}: there is no value \"{}\"; a step before this one should alloc it", where,
                  name);
    CUDAL1_TRY(const value_state* state, known(name, where));
    const auto& base = states_.at(state->base);
    if (base.from != origin::step) {
      const auto of = state->base == name ? "" : fmt::format("a view of \"{}\", ", state->base);
      return fail(errc::invalid_program, "{}: \"{}\" is {}{} and may not be written; alloc a value for the result",
                  where, name, of, kind_of(base));
    }
    if (state->base != name)
      return fail(errc::invalid_program,
                  "{}: \"{}\" is a view of \"{}\"; only values that own their memory may be written: write to an alloc",
                  where, name, state->base);
    if (base.in_setup && section_ == program_section::steps)
      return fail(errc::invalid_program, "{}: \"{}\" is made by setup ({}); steps may only read it: alloc another",
                  where, name, base.bound_at);
    if (!base.seen_by.empty())
      return fail(
          errc::invalid_program,
          "{}: \"{}\" has the view \"{}\", which a write would change; write to another alloc, or make the view "
          "after the last write",
          where, name, base.seen_by);
    return {};
  }
  static std::string kind_of(const value_state& base) { return base.from == origin::input ? "an input" : "a weight"; }

  expected<void> check_launch(const launch_step& launch) {
    CUDAL1_CHECK(kernels_.check(launch, label_));
    std::map<std::string, std::size_t> written;
    for (std::size_t i = 0; i < launch.args.size(); ++i) {
      const auto& a = launch.args[i];
      if (!a.is_tensor()) continue;
      const auto where = fmt::format("{}, args[{}]", label_, i);
      if (a.kind != argument_kind::out) CUDAL1_CHECK(check_read(a.tensor, where));
      if (a.kind != argument_kind::in) CUDAL1_CHECK(check_write(a.tensor, where));
      if (a.map) CUDAL1_CHECK(check_tensor_map(*a.map, out_.types.at(a.tensor), where));
      if (a.kind == argument_kind::in) continue;
      if (const auto [other, fresh] = written.emplace(a.tensor, i); !fresh)
        return fail(errc::invalid_program, "{}: \"{}\" is written by args[{}] already", where, a.tensor, other->second);
    }
    for (std::size_t i = 0; i < launch.args.size(); ++i)
      if (launch.args[i].kind == argument_kind::in && written.contains(launch.args[i].tensor))
        return fail(errc::invalid_program,
                    "{}, args[{}]: \"{}\" is written by args[{}] of the same launch; pass it once, as inout", label_, i,
                    launch.args[i].tensor, written.at(launch.args[i].tensor));
    for (const auto& [name, index] : written)
      states_.at(name).written = true;
    return {};
  }

  // A kernel may begin before another one of this program has ended, but before nothing else: not before what is ahead
  // of the whole program.
  expected<void> check_overlap(const std::vector<step>& steps, const std::vector<operator_call>& calls,
                               std::size_t i) const {
    if (p_.how.lanes > 1)
      return fail(errc::invalid_program, "{}: a programmatic launch needs a program of one lane", label_);
    while (i > 0 && std::holds_alternative<alloc_step>(steps[i - 1]))
      --i;
    if (i > 0 && runs_a_kernel(steps[i - 1], calls[i - 1])) return {};
    return fail(errc::invalid_program,
                "{}: a programmatic launch comes directly behind another launch, a product, a convolution or the like, "
                "with which it may overlap; leave \"programmatic\" out",
                label_);
  }
  bool runs_a_kernel(const step& s, const operator_call& call) const {
    if (std::holds_alternative<launch_step>(s)) return true;
    const auto* const aten = std::get_if<aten_step>(&s);
    if (aten == nullptr || call.op == nullptr) return false;
    const auto kind = call.op->record->kind;
    const bool computes = kind == operator_kind::product || kind == operator_kind::convolution ||
                          kind == operator_kind::attention || kind == operator_kind::normalization ||
                          kind == operator_kind::pool;
    return computes && std::ranges::any_of(aten->results, [this](const std::string& name) {
             return !name.empty() && out_.types.at(name).numel() > 0;
           });
  }

  expected<void> check_aten(const aten_step& call, operator_call& bound, std::vector<operator_result>& results) {
    const auto* op = find_operator(call.op);
    if (!op) {
      return fail(errc::unsupported, "{}, aten: the operator \"{}\" is not on the list{}", label_, call.op,
                  operators_near(call.op));
    }
    std::string unknown;
    const auto lookup = [&](const std::string& name) -> const tensor_type* {
      const auto found = out_.types.find(name);
      if (found == out_.types.end()) unknown = name;
      return found == out_.types.end() ? nullptr : &found->second;
    };
    auto typed = bind_arguments(*op, call.args, lookup);
    if (!typed) {
      if (!unknown.empty()) typed.error().message += why_unknown(unknown);
      return fail_in_step(std::move(typed).error());
    }
    bound = std::move(*typed);
    for (std::size_t i = 0; i < bound.arguments.size(); ++i)
      CUDAL1_CHECK(check_argument_reads(bound.arguments[i], label_ + ", args." + op->schema.arguments[i].name));
    auto outcome = op->rule(bound);
    if (!outcome) return fail_in_step(std::move(outcome).error());
    results = std::move(*outcome);
    return bind_results(call, bound, results);
  }

  tl::unexpected<error> fail_in_step(error e) const {
    e.message = label_ + ", " + e.message;
    return tl::unexpected<error>(std::move(e));
  }

  expected<void> check_argument_reads(const argument_value& value, const std::string& where) {
    if (const auto* one = std::get_if<tensor_argument>(&value)) return check_read(one->name, where);
    if (const auto* many = std::get_if<std::vector<tensor_argument>>(&value))
      for (const auto& item : *many)
        if (!item.name.empty()) CUDAL1_CHECK(check_read(item.name, where));
    return {};
  }

  expected<void> bind_results(const aten_step& call, const operator_call& bound,
                              const std::vector<operator_result>& results) {
    if (results.size() != call.results.size())
      return fail(errc::invalid_program, "{}, out: {} has {} results, but {} are named (\"\" for one that is not read)",
                  label_, call.op, results.size(), call.results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto where = fmt::format("{}, out[{}]", label_, i);
      auto state = made_here();
      if (results[i].view_of) {
        const auto* viewed = *results[i].view_of < bound.arguments.size()
                                 ? std::get_if<tensor_argument>(&bound.arguments[*results[i].view_of])
                                 : nullptr;
        if (!viewed)
          return fail(errc::infrastructure, "{}: the rule of {} returns a view of an argument that is not a tensor",
                      where, call.op);
        state.base = states_.at(viewed->name).base;
        state.in_setup = states_.at(state.base).in_setup;
      }
      if (call.results[i].empty()) {
        CUDAL1_CHECK(check_size(results[i].type, where, state));
      } else {
        CUDAL1_CHECK(bind(call.results[i], results[i].type, std::move(state), where));
      }
    }
    return {};
  }

  expected<void> check_outputs() {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < p_.outputs.size(); ++i) {
      const auto& name = p_.outputs[i];
      const auto where = fmt::format("outputs[{}]", i);
      const auto found = states_.find(name);
      if (found == states_.end())
        return fail(errc::invalid_program, "{}: there is no value \"{}\"{}", where, name, why_unknown(name));
      if (!seen.insert(name).second) return fail(errc::invalid_program, "{}: \"{}\" appears twice", where, name);
      const auto& base = states_.at(found->second.base);
      const auto of = found->second.base == name ? std::string("is ") : "is a view of \"" + found->second.base + "\", ";
      if (base.from != origin::step || base.in_setup)
        return fail(errc::invalid_program,
                    "{}: \"{}\" {}{}; an output must own its memory (aten::clone copies into new memory)", where, name,
                    of, base.from == origin::step ? "made by setup" : kind_of(base));
      if (!base.written)
        return fail(errc::invalid_program, "{}: nothing has written \"{}\" ({})", where, name, base.bound_at);
    }
    return {};
  }

  checked_program& out_;
  const program& p_;
  const program_limits& limits_;
  kernel_table kernels_;
  std::map<std::string, value_state> states_;
  std::map<std::string, std::string> later_;
  int64_t total_bytes_ = 0;
  program_section section_ = program_section::setup;  // of the step in hand
  std::string label_;
};

bool only_aten(const std::vector<step>& steps) {
  return std::all_of(steps.begin(), steps.end(), [](const step& s) { return std::holds_alternative<aten_step>(s); });
}

}  // namespace

bool checked_program::is_pure_aten() const {
  return only_aten(text.setup) && only_aten(text.steps);
}

expected<checked_program> check_program(program p, const program_limits& limits) {
  CUDAL1_CHECK(check_form(p));
  checked_program checked;
  checked.text = std::move(p);
  canonicalize(checked.text.setup);
  canonicalize(checked.text.steps);
  sort_headers(checked.text.headers);
  CUDAL1_CHECK(checker(checked, limits).run());
  checked.id = program_id(checked.text);
  return checked;
}

expected<checked_program> check_program_text(std::string_view text, const program_limits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_text_bytes)
    return fail(errc::invalid_program, "the program: {} bytes are above the limit of {}", text.size(),
                limits.max_text_bytes);
  CUDAL1_TRY(auto p, read_program(text));
  return check_program(std::move(p), limits);
}

}  // namespace cudal1
