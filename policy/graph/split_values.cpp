#include "policy/graph/split_values.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "policy/graph/convolution_geometry.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

bool is_divided(const dimension_parts& parts) {
  return std::ranges::any_of(parts, [](const auto& of) { return of.size() > 1; });
}

// Where a dimension's parts begin among all parts.
int64_t place_of(const dimension_parts& parts, std::size_t dim) {
  int64_t out = 0;
  for (std::size_t d = 0; d < dim; ++d)
    out += std::ssize(parts[d]);
  return out;
}

std::optional<std::size_t> dimension(int64_t number, std::size_t dims) {
  if (number < 0) number += static_cast<int64_t>(dims);
  if (number < 0 || number >= static_cast<int64_t>(dims)) return std::nullopt;
  return static_cast<std::size_t>(number);
}

// The operand of a step that has only one; "" for others.
std::string only_operand(const graph_step& s) {
  const auto all = s.operands();
  return all.size() == 1 ? all.front() : "";
}

// The parts where some dimensions are reduced.
dimension_parts reduced(const dimension_parts& parts, const std::vector<std::size_t>& dims, bool keeps) {
  dimension_parts out;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (std::ranges::count(dims, d) == 0)
      out.push_back(parts[d]);
    else if (keeps)
      out.emplace_back(parts[d].size(), 1);
  }
  return out;
}

json places_of(const dimension_parts& parts, const std::vector<std::size_t>& dims) {
  std::vector<int64_t> out;
  for (const auto d : dims)
    for (int64_t i = 0; i < std::ssize(parts[d]); ++i)
      out.push_back(place_of(parts, d) + i);
  return list_of(out);
}

bool is_softmax(const std::string& op) {
  return op == "aten::softmax.int" || op == "aten::log_softmax.int";
}

bool is_norm_of_channels(const std::string& op) {
  return op == "aten::batch_norm" || op == "aten::instance_norm" || op == "aten::group_norm";
}

// Whether windows do not overlap, leave nothing out and do not reach beyond what they slide over.
bool tiles_its_operand(const graph_step& s, const std::vector<int64_t>& window) {
  const auto step = integers_argument(s, "stride").value_or(std::vector<int64_t>{});
  return (step.empty() || by_dimension(s, "stride", window.size(), 0) == window) &&
         geometry_is(by_dimension(s, "padding", window.size(), 0), 0) &&
         geometry_is(by_dimension(s, "dilation", window.size(), 1), 1) &&
         !boolean_argument(s, "ceil_mode").value_or(false) && !integer_argument(s, "divisor_override");
}

}  // namespace

std::vector<int64_t> shape_of(const dimension_parts& parts) {
  std::vector<int64_t> out;
  for (const auto& of : parts)
    out.insert(out.end(), of.begin(), of.end());
  return out;
}

const split_values::form* split_values::form_of(const std::string& value) const {
  const auto found = forms_.find(value);
  return found == forms_.end() ? nullptr : &found->second;
}

// The divided form of the only operand.
const split_values::form* split_values::form_of_operand(const graph_step& s) const {
  return form_of(only_operand(s));
}

// The shape in which a value is broadcast to these parts; nothing where its own parts are others.
std::optional<std::vector<int64_t>> split_values::shape_among(const std::string& value,
                                                              const dimension_parts& of) const {
  const auto& shape = g_->type_of(value).shape;
  const form* divided = form_of(value);
  if (shape.size() > of.size()) return std::nullopt;
  std::vector<int64_t> out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto& wanted = of[d + of.size() - shape.size()];
    if (shape[d] == 1 && wanted != std::vector<int64_t>{1}) {
      out.insert(out.end(), wanted.size(), 1);
      continue;
    }
    const bool may_be_divided = divided == nullptr || divided->parts[d].size() == 1;
    if (!may_be_divided && divided->parts[d] != wanted) return std::nullopt;
    if (std::accumulate(wanted.begin(), wanted.end(), int64_t{1}, std::multiplies<>()) != shape[d]) return std::nullopt;
    out.insert(out.end(), wanted.begin(), wanted.end());
  }
  return out;
}

// Replaces all tensors among the arguments by views that are broadcast to these parts; false where one cannot be.
bool split_values::put_operands(aten_step& made, const graph_step& s, const dimension_parts& of) {
  std::vector<std::pair<std::string, std::string>> operands;
  for (const auto& [name, argument] : s.use->arguments) {
    if (std::holds_alternative<std::vector<tensor_argument>>(argument)) return false;
    if (const auto* tensor = std::get_if<tensor_argument>(&argument)) operands.emplace_back(name, tensor->name);
  }
  for (const auto& [name, value] : operands)
    if (!shape_among(value, of)) return false;
  for (const auto& [name, value] : operands) {
    const auto shape = *shape_among(value, of);
    const form* divided = form_of(value);
    std::string now = divided == nullptr ? value : divided->name;
    if (shape != (divided == nullptr ? g_->type_of(value).shape : shape_of(divided->parts))) {
      step_arguments as = {{"self", json(now)}, {"size", list_of(shape)}};
      now = g_->is_constant(value) ? out_->at_set_up("aten::view", std::move(as), value + "_divided")
                                   : out_->add("aten::view", std::move(as), out_->new_name(value + "_divided"));
    }
    set_argument(made, name, json(now));
  }
  return true;
}

std::optional<split_values::divided_step> split_values::elementwise(const graph_step& s) {
  if (s.record().kind != operator_kind::pointwise || s.argument("dim") != nullptr) return std::nullopt;
  for (const auto& value : s.operands()) {
    const form* divided = form_of(value);
    if (divided == nullptr || g_->type_of(value).shape != s.result_types[0].shape) continue;
    divided_step out{*s.text, divided->parts};
    if (!put_operands(out.text, s, out.parts)) return std::nullopt;
    return out;
  }
  return std::nullopt;
}

std::optional<split_values::divided_step> split_values::normalization(const graph_step& s) {
  const auto input = tensor_argument_name(s, "input");
  const form* divided = input ? form_of(*input) : nullptr;
  if (divided == nullptr) return std::nullopt;
  divided_step out{*s.text, divided->parts};
  if (is_norm_of_channels(s.op())) {
    if (divided->parts[0].size() != 1 || divided->parts[1].size() != 1) return std::nullopt;
    set_argument(out.text, "input", json(divided->name));
    return out;
  }
  const auto of = integers_argument(s, "normalized_shape");
  if (s.op() != "aten::layer_norm" || !of) return std::nullopt;
  const dimension_parts last(divided->parts.end() - std::ssize(*of), divided->parts.end());
  for (const char* name : {"weight", "bias"}) {
    const auto value = tensor_argument_name(s, name);
    if (!value) continue;
    if (form_of(*value) != nullptr || !g_->is_constant(*value)) return std::nullopt;
    step_arguments as = {{"self", json(*value)}, {"size", list_of(shape_of(last))}};
    set_argument(out.text, name, json(out_->at_set_up("aten::view", std::move(as), *value + "_divided")));
  }
  set_argument(out.text, "input", json(divided->name));
  set_argument(out.text, "normalized_shape", list_of(shape_of(last)));
  return out;
}

std::optional<split_values::divided_step> split_values::reduction(const graph_step& s) const {
  const form* divided = form_of_operand(s);
  if (divided == nullptr || (s.record().kind != operator_kind::reduction && !is_softmax(s.op()))) return std::nullopt;
  divided_step out{*s.text, divided->parts};
  set_argument(out.text, "self", json(divided->name));
  std::vector<std::size_t> dims;
  if (const auto one = integer_argument(s, "dim")) {
    const auto d = dimension(*one, divided->parts.size());
    if (!d || divided->parts[*d].size() != 1) return std::nullopt;
    dims.push_back(*d);
    set_argument(out.text, "dim", json(place_of(divided->parts, *d)));
  } else if (const auto several = integers_argument(s, "dim"); several && !several->empty()) {
    for (const int64_t each : *several) {
      const auto d = dimension(each, divided->parts.size());
      if (!d) return std::nullopt;
      dims.push_back(*d);
    }
    set_argument(out.text, "dim", places_of(divided->parts, dims));
  } else {
    return std::nullopt;
  }
  if (!is_softmax(s.op())) out.parts = reduced(out.parts, dims, boolean_argument(s, "keepdim").value_or(false));
  return out;
}

// Windows that are the inner parts of dimensions; the mean over all of space.
std::optional<split_values::divided_step> split_values::pool(const graph_step& s) const {
  const form* divided = form_of_operand(s);
  if (divided == nullptr || s.record().kind != operator_kind::pool || s.text->results.size() != 1) return std::nullopt;
  const bool is_average = s.op().starts_with("aten::avg_pool");
  const bool is_adaptive = s.op().starts_with("aten::adaptive_avg_pool");
  if (!is_average && !is_adaptive && !s.op().starts_with("aten::max_pool")) return std::nullopt;
  const std::size_t space = divided->parts.size() - 2;
  const auto size = by_dimension(s, is_adaptive ? "output_size" : "kernel_size", space, 1);
  divided_step out;
  std::vector<int64_t> over;
  out.parts = divided->parts;
  for (std::size_t d = 2; d < divided->parts.size(); ++d) {
    auto& parts = out.parts[d];
    const int64_t first = place_of(divided->parts, d);
    if (is_adaptive) {
      for (int64_t i = 0; i < std::ssize(parts); ++i)
        over.push_back(first + i);
      parts.assign(parts.size(), 1);
    } else if (parts.size() == 2 && parts[1] == size[d - 2]) {
      over.push_back(first + 1);
      parts.pop_back();
    } else if (size[d - 2] != 1) {
      return std::nullopt;
    }
  }
  if (is_adaptive ? !geometry_is(size, 1) : !tiles_its_operand(s, size)) return std::nullopt;
  out.text.op = is_average || is_adaptive ? "aten::mean.dim" : "aten::amax";
  out.text.args = {{"self", json(divided->name)}, {"dim", list_of(over)}, {"keepdim", json(is_adaptive)}};
  out.text.results = s.text->results;
  return out;
}

std::optional<split_values::divided_step> split_values::divided(const graph_step& s) {
  if (auto out = elementwise(s)) return out;
  if (auto out = reduction(s)) return out;
  if (auto out = pool(s)) return out;
  return normalization(s);
}

void split_values::add_divided(const graph_step& s, divided_step made) {
  if (is_divided(made.parts)) {
    for (auto& result : made.text.results) {
      if (result.empty()) continue;
      const std::string name = out_->new_name(result + "_divided");
      add(result, name, made.parts);
      result = name;
    }
  }
  made.text.precision = s.text->precision;
  out_->add(std::move(made.text));
}

void split_values::add_own(const std::string& value) {
  const form* divided = form_of(value);
  if (divided == nullptr || !own_.insert(value).second) return;
  out_->add("aten::view", {{"self", json(divided->name)}, {"size", list_of(g_->type_of(value).shape)}}, value);
}

void split_values::add(const graph_step& s) {
  const auto operands = s.operands();
  if (std::ranges::any_of(operands, [this](const auto& value) { return has(value); })) {
    if (auto made = divided(s)) return add_divided(s, std::move(*made));
    for (const auto& value : operands)
      add_own(value);
  }
  out_->add(*s.text);
}

void split_values::add_outputs() {
  for (const auto& output : g_->origin().reference.text.outputs)
    add_own(output);
}

}  // namespace cudal1
