#include "policy/graph/channels_last.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "policy/graph/program_changes.hpp"
#include "policy/graph/step_arguments.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/strides.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

bool is_same_layout(const tensor_type& a, const tensor_type& b) {
  for (std::size_t d = 0; d < a.shape.size(); ++d)
    if (a.shape[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

// Operators that compute with values in any order in memory, as kernels of our own or as the library's.
bool takes_any_order(const operator_record& record) {
  switch (record.kind) {
    case operator_kind::pointwise:
    case operator_kind::pool:
    case operator_kind::join:
    case operator_kind::reduction:
    case operator_kind::copy:
    case operator_kind::loss:
      return true;
    case operator_kind::normalization:
      return record.traits.rows && record.traits.rows->form == row_form::standardize_channels;
    default:
      return false;
  }
}

class channels_last_writer {
 public:
  explicit channels_last_writer(const checked_program& p) : p_(&p) {
    for (const auto& each : p.text.inputs)
      keep(each.name, each.name, each.type);
    for (const auto& each : p.text.weights)
      keep(each.name, each.name, each.type);
    for (const auto& s : p.text.setup)
      for (const auto& value : std::get<aten_step>(s).results)
        if (!value.empty()) keep(value, value, p.types.at(value));
  }

  expected<program> write(std::span<const int> convolutions) {
    for (std::size_t i = 0; i < p_->text.steps.size(); ++i) {
      const auto& s = std::get<aten_step>(p_->text.steps[i]);
      if (std::ranges::count(convolutions, static_cast<int>(i)) > 0) {
        CUDAL1_CHECK(add(s, [this](const std::string& value, std::string_view argument) {
          return argument == "bias" ? form_of(value) : channels_last(value);
        }));
      } else {
        CUDAL1_CHECK(add_other(s, p_->calls[i]));
      }
    }
    for (const auto& output : p_->text.outputs) {
      if (form_of(output) == output) continue;
      if (!p_->types.at(output).is_contiguous())
        return fail(errc::unsupported, "the output {} is not contiguous", output);
      contiguous_form(output);
    }
    program out = p_->text;
    out.steps = std::move(steps_);
    return out;
  }

 private:
  // ---- the forms of a value ----

  void keep(const std::string& value, const std::string& name, const tensor_type& type) {
    forms_[value] = name;
    types_[name] = type;
  }
  const std::string& form_of(const std::string& value) const { return forms_.at(value); }
  const tensor_type& type_of(const std::string& value) const { return types_.at(form_of(value)); }

  std::string new_name(const std::string& name) const {
    return fresh_name(name, [this](const auto& n) { return p_->types.contains(n) || types_.contains(n); });
  }

  std::string copied(const std::string& value, const std::string& format, tensor_type type, std::string name) {
    aten_step copy;
    copy.op = "aten::contiguous";
    copy.args = {{"self", json(form_of(value))}};
    const json wanted(format);
    if (!format.empty()) copy.args.emplace_back("memory_format", wanted);
    copy.results = {name};
    steps_.emplace_back(std::move(copy));
    types_[name] = std::move(type);
    return name;
  }

  // The value as the task has it, or contiguous where the task's is not.
  std::string contiguous_form(const std::string& value) {
    const tensor_type &own = p_->types.at(value), &now = type_of(value);
    if (form_of(value) == value || now.is_contiguous()) return form_of(value);
    auto& made = contiguous_[value];
    if (made.empty())
      made = copied(value, "", contiguous(own.type, own.shape),
                    own.is_contiguous() ? value : new_name(value + "_contiguous"));
    return made;
  }

  std::string channels_last(const std::string& value) {
    const tensor_type& now = type_of(value);
    tensor_type wanted = rules::laid_out(now.type, now.shape, rules::format::channels_last);
    if (is_same_layout(now, wanted)) return form_of(value);
    auto& made = last_[value];
    if (made.empty())
      made = copied(value, now.dim() == 5 ? "channels_last_3d" : "channels_last", std::move(wanted),
                    new_name(value + "_last"));
    return made;
  }

  // ---- steps ----

  // The step with its operands in other forms; every string that names a value is one.
  template <class Form>
  aten_step with_forms(aten_step s, Form&& form) const {
    const auto renamed = [&](json& each, std::string_view argument) {
      if (each.is_string() && forms_.contains(std::string(each.as_string())))
        each = json(form(std::string(each.as_string()), argument));
    };
    const operator_info* op = find_operator(s.op);
    for (auto& [name, argument] : s.args) {
      const auto declared = std::ranges::find(op->schema.arguments, name, &schema_argument::name);
      if (declared == op->schema.arguments.end() || !holds_tensors(*declared)) continue;
      renamed(argument, name);
      if (argument.is_array())
        for (auto& each : argument.as_array())
          renamed(each, name);
    }
    return s;
  }

  static bool holds_tensors(const schema_argument& a) {
    return a.type == schema_type::tensor || a.type == schema_type::tensor_list;
  }

  expected<std::vector<operator_result>> results_of(const aten_step& s) const {
    const operator_info* op = find_operator(s.op);
    CUDAL1_TRY(const auto call, bind_arguments(*op, s.args, [this](const std::string& name) {
                 const auto found = types_.find(name);
                 return found == types_.end() ? nullptr : &found->second;
               }));
    return op->rule(call);
  }

  template <class Form>
  expected<void> add(const aten_step& s, Form&& form) {
    aten_step made = with_forms(s, form);
    CUDAL1_TRY(const auto results, results_of(made));
    return add(std::move(made), results);
  }

  expected<void> add(aten_step made, const std::vector<operator_result>& results) {
    for (std::size_t r = 0; r < made.results.size(); ++r) {
      const std::string value = made.results[r];
      if (value.empty()) continue;
      const bool is_own = is_same_layout(results[r].type, p_->types.at(value));
      if (!is_own) made.results[r] = new_name(value + "_last");
      keep(value, made.results[r], is_own ? p_->types.at(value) : results[r].type);
    }
    steps_.emplace_back(std::move(made));
    return {};
  }

  // A step that is not asked to have the channels last.
  expected<void> add_other(const aten_step& s, const operator_call& call) {
    const operator_record& record = work_parts::record_of(call);
    bool is_moved = false, are_contiguous = true;  // whether an operand is in another order, and all of these are dense
    for (const auto& value : work_parts::operands_of(call)) {
      if (form_of(value) == value) continue;
      is_moved = true;
      are_contiguous = are_contiguous && type_of(value).is_contiguous();
    }
    const auto now = [this](const std::string& value, std::string_view) { return form_of(value); };
    if (!is_moved) return add(s, now);
    const bool is_view = record.kind == operator_kind::view || record.kind == operator_kind::list;
    // A stride says which element it means only where the order in memory is the task's.
    const bool by_strides = s.op.find("strided") != std::string::npos;
    if (!by_strides && (is_view || takes_any_order(record) || are_contiguous)) {
      aten_step made = with_forms(s, now);
      const auto results = results_of(made);
      const auto shares = [](const operator_result& r) { return r.view_of.has_value(); };
      if (results && (!is_view || std::ranges::all_of(*results, shares))) return add(std::move(made), *results);
    }
    // First all copies, then the step that reads them.
    const auto plain = [this](const std::string& value, std::string_view) { return contiguous_form(value); };
    return add(s, plain);
  }

  const checked_program* p_;
  std::vector<step> steps_;
  std::map<std::string, std::string> forms_;  // of each value: the name of what steps read unless they need another
  std::map<std::string, std::string> contiguous_, last_;  // copies of values that were needed
  std::map<std::string, tensor_type> types_;              // by the names in the new program
};

}  // namespace

std::vector<int> convolutions_with_channels(const checked_program& p) {
  std::vector<int> out;
  for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
    const auto* s = std::get_if<aten_step>(&p.text.steps[i]);
    const operator_call& call = p.calls[i];
    if (s == nullptr || call.op == nullptr || call.op->record->kind != operator_kind::convolution) continue;
    const json *input = argument_of(*s, "input"), *weight = argument_of(*s, "weight");
    if (input == nullptr || weight == nullptr) continue;
    const auto& type = p.types.at(std::string(input->as_string()));
    const auto dimensions = p.types.at(std::string(weight->as_string())).dim();
    if (dimensions >= 4 && type.dim() == dimensions && type.shape[1] > 1) out.push_back(static_cast<int>(i));
  }
  return out;
}

bool convolves_by_fours(const operator_call& convolution) {
  const tensor_type* weight = work_parts::tensor_of(convolution, "weight");
  if (weight == nullptr || work_parts::is_transposed(convolution)) return weight != nullptr;
  return weight->shape[weight->shape[1] == 1 ? 0 : 1] % 4 == 0;
}

expected<std::shared_ptr<const task>> with_channels_last(const task& t, std::span<const int> convolutions) {
  CUDAL1_TRY(program text, channels_last_writer(t.reference).write(convolutions));
  return with_program(t, std::move(text));
}

}  // namespace cudal1
