#include "policy/proof_check/element_values.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "config/base/split_mix.hpp"
#include "policy/proof_check/element_operators.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

// A number in [0, 1) that depends on all three.
double random_number(uint64_t name, uint64_t seed, int64_t place) {
  const uint64_t start = split_mix(name + split_mix_step * seed);
  return static_cast<double>(split_mix(start + split_mix_step * static_cast<uint64_t>(place)) >> 11U) * 0x1p-53;
}

std::string_view operator_name(const graph_step& s) {
  return s.use->record != nullptr ? s.record().name() : std::string_view(s.op());
}

}  // namespace

int64_t number_of(const place& p, const std::vector<int64_t>& shape) {
  int64_t out = 0;
  for (std::size_t d = 0; d < shape.size(); ++d)
    out = out * shape[d] + p[d];
  return out;
}

place place_of(int64_t number, const std::vector<int64_t>& shape) {
  place out;
  out.dims = shape.size();
  for (std::size_t d = shape.size(); d-- > 0;) {
    out[d] = number % shape[d];
    number /= shape[d];
  }
  return out;
}

// ---- steps ----------------------------------------------------------------------------------------------------------

std::size_t element_step::operand(std::string_view argument, std::size_t item) const {
  for (const auto& [name, ids] : operands_)
    if (name == argument) return ids[item];
  std::vector<std::size_t> ids;
  const auto& [name, value] =
      *std::ranges::find(step_.use->arguments, argument, [](const auto& a) -> std::string_view { return a.first; });
  if (const auto* one = std::get_if<tensor_argument>(&value)) {
    ids.push_back(values_->id_of(one->name));
  } else {
    for (const auto& each : std::get<std::vector<tensor_argument>>(value))
      ids.push_back(values_->id_of(each.name));
  }
  operands_.emplace_back(name, std::move(ids));  // the step's own name, which lives as long as the step
  return operands_.back().second[item];
}

const tensor_type& element_step::type(std::string_view argument) const {
  return std::get<tensor_argument>(*step_.argument(argument)).type;
}

double element_step::element(std::string_view argument, const place& p) const {
  return values_->at(operand(argument, 0), p);
}

double element_step::broadcast(std::string_view argument, const place& p) const {
  if (!has(argument)) return number(argument, k_nan);
  const auto& shape = type(argument).shape;
  return element(argument, broadcast_place(p, shape));
}

double element_step::element_of_list(std::string_view argument, std::size_t item, const place& p) const {
  return values_->at(operand(argument, item), p);
}

double element_step::number(std::string_view argument, double otherwise) const {
  return number_argument(step_, argument).value_or(otherwise);
}

int64_t element_step::integer(std::string_view argument, int64_t otherwise) const {
  return integer_argument(step_, argument).value_or(otherwise);
}

bool element_step::boolean(std::string_view argument) const {
  return boolean_argument(step_, argument).value_or(false);
}

std::vector<int64_t> element_step::integers(std::string_view argument) const {
  return integers_argument(step_, argument).value_or(std::vector<int64_t>());
}

std::size_t element_step::dim(std::string_view argument, int64_t otherwise, std::size_t dims) const {
  return dimension_of(integer(argument, otherwise), dims);
}

double element_step::cannot(const std::string& why) const {
  values_->give_up(std::string(operator_name(step_)) + " " + why);
  return k_nan;
}

// ---- values ---------------------------------------------------------------------------------------------------------

void element_values::give_up(const std::string& why) {
  if (problem_.empty()) problem_ = why;
}

std::size_t element_values::id_of(const std::string& value) {
  if (const auto known = ids_.find(value); known != ids_.end()) return known->second;
  node made = node_of(value);
  nodes_.push_back(std::move(made));
  ids_[value] = nodes_.size() - 1;
  return nodes_.size() - 1;
}

element_values::node element_values::node_of(const std::string& value) {
  const bool of_graph = options_.which == version::of_graph;
  if (const graph_step* made = set_up_step(value)) return step_node(value, *made);
  const std::string& meaning = of_graph ? graph_->meaning_of(value) : value;
  const graph_step* defined = graph_->original_definition_of(meaning);
  const bool computed = options_.computed->contains(meaning) || graph_->is_added(meaning);
  if (defined == nullptr || !computed || defined->text->results[0] != meaning) return random_node(meaning);
  if (!of_graph) return step_node(value, *defined);
  if (meaning == value && graph_->resolve(value) != value) {
    node same = random_node(value);
    same.what = node::kind::same;
    same.same_as = id_of(graph_->resolve(value));
    return same;
  }
  return step_node(meaning, *graph_->producer(value));
}

element_values::node element_values::random_node(const std::string& value) const {
  node out;
  out.type = &graph_->type_of(value);
  out.hash = std::hash<std::string>()(value);
  if (graph_->is_parameter(value))
    for (const fact f : {fact::diagonal, fact::upper_triangular, fact::lower_triangular, fact::symmetric, fact::one_hot,
                         fact::non_negative})
      if (graph_->origin().has_fact(value, f)) out.facts.push_back(f);
  return out;
}

element_values::node element_values::step_node(const std::string& value, const graph_step& s) {
  node out = random_node(value);
  const auto fits = [&](const std::string& operand) {
    return graph_->type_of(operand).shape.size() <= place::most_dims;
  };
  if (fits(value) && std::ranges::all_of(s.operands(), fits)) out.rule = find_element_rule(operator_name(s));
  if (out.rule == nullptr) {
    unknown_.emplace(operator_name(s));
    return out;
  }
  steps_.emplace_back(*this, s);
  out.step = &steps_.back();
  out.what = node::kind::step;
  return out;
}

const graph_step* element_values::set_up_step(const std::string& value) {
  for (const auto& text : graph_->setup()) {
    if (text.results[0] != value) continue;
    const operator_info* op = find_operator(text.op);
    const auto bound = bind_arguments(*op, text.args, [&](const std::string& name) { return &graph_->type_of(name); });
    if (!bound) {
      give_up(text.op + " at set-up: " + bound.error().message);
      return nullptr;
    }
    graph_step& s = set_up_.emplace_back();
    s.text = &text;
    s.use = use_of(text, *bound);
    s.result_types = {&graph_->type_of(value), 1};
    return &s;
  }
  return nullptr;
}

double element_values::random_element(const node& n, const place& p) const {
  const auto& shape = n.type->shape;
  const auto has = [&](fact f) { return std::ranges::find(n.facts, f) != n.facts.end(); };
  place at = p;
  if (p.dims >= 2) {
    int64_t &row = at[p.dims - 2], &column = at[p.dims - 1];
    if (has(fact::diagonal) && row != column) return 0;
    if (has(fact::upper_triangular) && row > column) return 0;
    if (has(fact::lower_triangular) && row < column) return 0;
    if (has(fact::symmetric) && row > column) std::swap(row, column);
  }
  const double x = options_.spread * (2 * random_number(n.hash, options_.seed, number_of(at, shape)) - 1);
  if (!is_floating(n.type->type)) return std::floor(std::fabs(x));
  if (has(fact::one_hot)) return p[p.dims - 1] == static_cast<int64_t>(p[0] % shape.back()) ? 1 : 0;
  return has(fact::non_negative) ? std::fabs(x) : x;
}

double element_values::at(std::size_t id, const place& p) {
  if (++elements_ > options_.most_elements) {
    give_up("it takes more elements than are computed for a check");
    return k_nan;
  }
  const node& n = nodes_[id];
  switch (n.what) {
    case node::kind::step: {
      const double x = n.rule(*n.step, p);
      return n.type->type == dtype::bool_ ? static_cast<double>(x != 0) : x;
    }
    case node::kind::same: {
      const auto& shape = nodes_[n.same_as].type->shape;
      return at(n.same_as, shape == n.type->shape ? p : broadcast_place(p, shape));
    }
    default:
      return random_element(n, p);
  }
}

double element_values::of_step(int number, const place& p) {
  const graph_step& s = graph_->step_at(number);
  const std::string key = "step " + std::to_string(number);  // no name of a value has a blank
  auto known = ids_.find(key);
  if (known == ids_.end()) {
    nodes_.push_back(step_node(s.text->results[0], s));
    known = ids_.emplace(key, nodes_.size() - 1).first;
  }
  if (nodes_[known->second].what == node::kind::step) return at(known->second, p);
  give_up(std::string(operator_name(s)) + " has no definition here");
  return k_nan;
}

}  // namespace cudal1
