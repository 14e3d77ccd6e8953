#include "policy/graph/value_forms.hpp"

#include <algorithm>

#include "policy/graph/convolution_geometry.hpp"
#include "policy/graph/proofs.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/strides.hpp"

namespace cudal1 {

namespace {

std::vector<int64_t> in_order(const std::vector<int64_t>& values, const std::vector<int64_t>& order) {
  if (order.empty()) return values;
  std::vector<int64_t> out;
  for (const int64_t d : order)
    out.push_back(values[rules::at(d)]);
  return out;
}

std::vector<int64_t> inverse_of(const std::vector<int64_t>& order) {
  std::vector<int64_t> out(order.size());
  for (std::size_t d = 0; d < order.size(); ++d)
    out[rules::at(order[d])] = static_cast<int64_t>(d);
  return out;
}

// Strides of dimensions of one element say nothing.
bool has_same_layout(const tensor_type& a, const tensor_type& b) {
  if (a.shape != b.shape) return false;
  for (std::size_t d = 0; d < a.shape.size(); ++d)
    if (a.shape[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

// Whether the step computes each element, and in a batch norm each channel, by itself, in any shape.
bool is_by_element(const graph& g, const graph_step& s) {
  if (!only_first_is_read(g, s)) return false;
  if (is_batch_norm(s)) return !boolean_argument(s, "training").value_or(false);
  if (s.op() == "aten::dropout") return !boolean_argument(s, "train").value_or(true);
  const operator_record& r = s.record();
  return r.kind == operator_kind::pointwise && r.traits.kernel && s.argument("dim") == nullptr;
}

bool has_list_of_tensors(const graph_step& s) {
  return std::ranges::any_of(s.use->arguments, [](const auto& each) {
    return std::holds_alternative<std::vector<tensor_argument>>(each.second);
  });
}

std::vector<std::pair<std::string, std::string>> tensor_arguments(const graph_step& s) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, value] : s.use->arguments)
    if (const auto* t = std::get_if<tensor_argument>(&value)) out.emplace_back(name, t->name);
  return out;
}

bool is_one_number(const tensor_type& t) {
  return t.numel() == 1 && t.dim() <= 1;
}

// Whether a tensor that is broadcast to that shape differs by channel only.
bool is_by_channel(const std::vector<int64_t>& shape, const std::vector<int64_t>& to) {
  if (shape.size() > to.size()) return false;
  const std::size_t missing = to.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && d + missing != 1) return false;
  return true;
}

// Whether it has a number for each sample and channel, which a form in the own order keeps apart.
bool is_by_sample(const std::vector<int64_t>& shape, const std::vector<int64_t>& to, const value_form& form) {
  if (!form.order.empty() || shape.size() != to.size() || form.shape[0] != to[0]) return false;
  return std::all_of(shape.begin() + 2, shape.end(), [](int64_t n) { return n == 1; });
}

// The weight, or what set-up made, whose elements the value has; "" for none.
std::string constant_behind(const graph& g, const std::string& value) {
  if (g.is_constant(value)) return value;
  const graph_step* made = g.definition_of(value);
  if (made == nullptr || (made->op() != "aten::reshape" && made->op() != "aten::view")) return "";
  const auto from = tensor_argument_name(*made, "self");
  return from && g.is_constant(*from) ? *from : "";
}

// The shape in that form of a tensor with the leading sizes `kept` and nothing behind them.
std::vector<int64_t> padded(std::vector<int64_t> kept, std::size_t dims) {
  kept.resize(dims, 1);
  return kept;
}

}  // namespace

std::optional<tensor_type> seen_as(const tensor_type& t, const value_form& form) {
  const tensor_type ordered{t.type, in_order(t.shape, form.order), in_order(t.strides, form.order)};
  auto strides = rules::view_strides(ordered, form.shape);
  if (!strides) return std::nullopt;
  return tensor_type{t.type, form.shape, std::move(*strides)};
}

bool form_writer::is_form_of(const std::string& value, const value_form& form) const {
  const auto found = made_.find(value);
  return found != made_.end() && found->second.form == form;
}

std::string form_writer::seen(const std::string& value, const std::vector<int64_t>& shape, const value_form& form) {
  if (is_form_of(value, form)) return made_.at(value).name;
  show(value);
  if (form.order.empty() && form.shape == shape) return value;
  auto& known = views_[{value, form}];
  if (!known.empty()) return known;
  std::string from = value;
  if (!form.order.empty())
    from = out_.add("aten::permute", {{"self", json(from)}, {"dims", list_of(form.order)}},
                    out_.new_name(value + "_permuted"));
  return known = out_.add("aten::reshape", {{"self", json(from)}, {"shape", list_of(form.shape)}},
                          out_.new_name(value + form.suffix));
}

std::string form_writer::made(const std::string& value, const value_form& form) {
  if (form.order.empty() && form.shape == g_->type_of(value).shape) return value;
  return (made_[value] = {form, out_.new_name(value + form.suffix), false}).name;
}

// Adds the view that is the task's value, if a step has made it in another form.
void form_writer::show(const std::string& value) {
  const auto found = made_.find(value);
  if (found == made_.end() || found->second.is_shown) return;
  made_value& from = found->second;
  from.is_shown = true;
  const auto& shape = g_->type_of(value).shape;
  const bool is_ordered = !from.form.order.empty();
  const std::string apart =
      out_.add("aten::reshape", {{"self", json(from.name)}, {"shape", list_of(in_order(shape, from.form.order))}},
               is_ordered ? out_.new_name(value + "_ordered") : value);
  if (is_ordered)
    out_.add("aten::permute", {{"self", json(apart)}, {"dims", list_of(inverse_of(from.form.order))}}, value);
}

bool form_writer::can_follow(const std::string& value, const tensor_type& to, const value_form& form) const {
  const tensor_type& t = g_->type_of(value);
  if (t.shape == to.shape) return has_same_layout(t, to);
  return is_one_number(t) || is_by_sample(t.shape, to.shape, form) ||
         (is_by_channel(t.shape, to.shape) && !constant_behind(*g_, value).empty());
}

std::string form_writer::operand_in(const std::string& value, const std::vector<int64_t>& to, const value_form& form) {
  const tensor_type& t = g_->type_of(value);
  if (t.shape == to) return seen(value, to, form);
  if (is_one_number(t)) {
    show(value);
    return value;
  }
  const std::size_t dims = form.shape.size();
  std::string constant = is_by_channel(t.shape, to) ? constant_behind(*g_, value) : "";
  if (constant.empty()) return seen(value, t.shape, {{}, padded({t.shape[0], t.shape[1]}, dims), form.suffix});
  const auto along = padded({t.numel()}, dims - 1);
  if (g_->type_of(constant).shape == along) return constant;
  return out_.at_set_up("aten::reshape", {{"self", json(constant)}, {"shape", list_of(along)}},
                        constant + "_by_channel");
}

std::optional<value_form> form_writer::form_to_follow(const graph_step& s, const arguments& operands) const {
  if (!is_by_element(*g_, s) || has_list_of_tensors(s)) return std::nullopt;
  const tensor_type& result = s.result_types[0];
  for (const auto& [argument, value] : operands) {
    const auto found = made_.find(value);
    if (found == made_.end() || g_->type_of(value).shape != result.shape) continue;
    const value_form& form = found->second.form;
    if (!has_same_layout(g_->type_of(value), result)) return std::nullopt;
    if (is_batch_norm(s)) return argument == "input" ? std::optional(form) : std::nullopt;
    const bool all =
        std::ranges::all_of(operands, [&](const auto& each) { return can_follow(each.second, result, form); });
    return all ? std::optional(form) : std::nullopt;
  }
  return std::nullopt;
}

void form_writer::add_in(const value_form& form, const graph_step& s, const arguments& operands) {
  aten_step now = *s.text;
  for (const auto& [argument, value] : operands) {
    if (is_batch_norm(s) && argument != "input") continue;
    const auto written = std::ranges::find(now.args, argument, [](const auto& a) { return a.first; });
    written->second = json(operand_in(value, s.result_types[0].shape, form));
  }
  now.results[0] = made(now.results[0], form);
  out_.add(std::move(now));
}

void form_writer::add(const graph_step& s) {
  const auto operands = tensor_arguments(s);
  if (const auto form = form_to_follow(s, operands)) return add_in(*form, s, operands);
  for (const auto& value : s.operands())
    show(value);
  out_.add(*s.text);
}

expected<std::shared_ptr<const task>> form_writer::take() {
  for (const auto& output : g_->origin().reference.text.outputs)
    show(output);
  CUDAL1_TRY(auto with, with_program(g_->origin(), out_.take()));
  for (const auto& [value, type] : with->reference.types) {
    const auto own = g_->origin().reference.types.find(value);
    if (own != g_->origin().reference.types.end() &&
        (own->second.type != type.type || !has_same_layout(own->second, type)))
      return fail(errc::invalid_argument, "{} would be {}, and is {}", value, type.text(), own->second.text());
  }
  return with;
}

}  // namespace cudal1
