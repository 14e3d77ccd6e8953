#include "policy/graph/unit_dimensions.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "policy/graph/convolution_geometry.hpp"
#include "policy/graph/found_steps.hpp"
#include "policy/graph/value_forms.hpp"

namespace cudal1 {

namespace {

// A convolution, and what its input, result and weights become. Shapes have the batch and the channels in front.
struct folded_convolution {
  convolution_geometry geometry;
  value_form input, result;
  std::vector<int64_t> weight;
  bool copies_weight = false;  // into another order in memory

  std::size_t dims() const { return geometry.stride.size(); }
  bool is_unit(std::size_t d) const { return weight[d + 2] == 1 && geometry.padding[d] == 0; }
  bool moves_by_one(std::size_t d) const { return geometry.stride[d] == 1; }

  void erase(std::size_t d) {
    const auto at = static_cast<std::ptrdiff_t>(d);
    for (auto* each : {&geometry.stride, &geometry.padding, &geometry.dilation})
      each->erase(each->begin() + at);
    for (auto* each : {&input.shape, &result.shape, &weight})
      each->erase(each->begin() + at + 2);
  }
};

// Leaves out a dimension along which the input has one element.
bool leave_out_dimension(folded_convolution& c) {
  for (std::size_t d = c.dims(); d-- > 0;) {
    if (!c.is_unit(d) || c.input.shape[d + 2] != 1) continue;
    c.erase(d);
    return true;
  }
  return false;
}

// Makes a dimension and the one before it one: windows reach over all elements of the former at each step of the
// latter.
bool join_dimensions(folded_convolution& c) {
  for (std::size_t d = c.dims(); d-- > 1;) {
    if (!c.is_unit(d) || !c.moves_by_one(d) || !c.moves_by_one(d - 1)) continue;
    const int64_t size = c.input.shape[d + 2];
    c.geometry.dilation[d - 1] *= size;
    c.geometry.padding[d - 1] *= size;
    c.input.shape[d + 1] *= size;
    c.result.shape[d + 1] *= size;
    c.erase(d);
    return true;
  }
  return false;
}

// Makes the first dimension in space one with the batch.
bool join_batch(folded_convolution& c) {
  if (!c.is_unit(0) || !c.moves_by_one(0)) return false;
  const int64_t size = c.input.shape[2];
  for (auto* form : {&c.input, &c.result}) {
    form->order.resize(form->shape.size());
    std::iota(form->order.begin(), form->order.end(), int64_t{0});
    std::swap(form->order[1], form->order[2]);
    form->shape[0] *= size;
  }
  c.erase(0);
  return true;
}

bool are_views(const graph& g, const graph_step& s, const folded_convolution& c) {
  return seen_as(g.type_of(c.geometry.input), c.input) && seen_as(s.result_types[0], c.result);
}

// Three dimensions are two, or two of which the input has only one are one. Empty where that is impossible.
std::optional<folded_convolution> folded(const graph& g, const graph_step& s, const folded_convolution& own) {
  folded_convolution out = own;
  while (out.dims() > 1 && leave_out_dimension(out)) {
  }
  while (out.dims() > 2 && join_dimensions(out)) {
  }
  if (out.dims() < own.dims() && are_views(g, s, out)) return out;
  out = own;
  if (out.dims() > 2 && join_batch(out) && are_views(g, s, out)) return out;
  return std::nullopt;
}

// The weight, or the one that a step copies into another order in memory; "" for none.
std::string weight_behind(const graph& g, const std::string& value) {
  if (g.is_constant(value)) return value;
  const graph_step* made = g.definition_of(value);
  if (made == nullptr || made->op() != "aten::contiguous") return "";
  const std::string from = *tensor_argument_name(*made, "self");
  return g.is_constant(from) ? from : "";
}

expected<folded_convolution> folded_convolution_of(const graph& g, int number) {
  if (!g.has_step(number)) return fail(errc::invalid_argument, "there is no step {}", number);
  const graph_step& s = g.step_at(number);
  const auto no = [&](const std::string& why) { return fail(errc::invalid_argument, "step {}: {}", number, why); };
  folded_convolution own;
  CUDAL1_TRY(own.geometry, geometry_of(g, s));
  if (own.geometry.transposed) return no("it is a transposed convolution");
  const std::string weight = weight_behind(g, own.geometry.weight);
  if (weight.empty()) return no(own.geometry.weight + " is no weight");
  own.copies_weight = std::exchange(own.geometry.weight, weight) != weight;
  own.weight = g.type_of(weight).shape;
  own.input = {{}, g.type_of(own.geometry.input).shape, "_folded"};
  own.result = {{}, s.result_types[0].shape, "_folded"};
  const auto units = std::count(own.weight.begin() + 2, own.weight.end(), 1);
  if (units == 0) return no("its kernel has several elements along each dimension");
  if (units == std::ssize(own.geometry.stride)) return no("its kernel has one element, which is no convolution");
  auto out = folded(g, s, own);
  if (!out)
    return no(
        "no dimension along which its kernel has one element is one with another, because of padding, strides or the "
        "order in memory");
  return std::move(*out);
}

std::string folded_weight(program_changes& out, const folded_convolution& c) {
  const std::string name = c.geometry.weight + "_folded";
  std::string w =
      out.at_set_up("aten::reshape", {{"self", json(c.geometry.weight)}, {"shape", list_of(c.weight)}}, name);
  if (!c.copies_weight || c.dims() != 2) return w;
  return out.at_set_up("aten::contiguous", {{"self", json(w)}, {"memory_format", json("channels_last")}}, name);
}

// Whether the step copies a weight for these convolutions alone, as channels_last lets it.
bool is_copy_for(const graph& g, const graph_step& s, const std::map<int, folded_convolution>& convolutions) {
  const std::string& value = s.text->results[0];
  if (s.op() != "aten::contiguous" || weight_behind(g, value).empty() || g.is_output(value)) return false;
  return std::ranges::all_of(g.readers(value), [&](int reader) {
    const graph_step& by = g.step_at(reader);
    return convolutions.contains(reader) && tensor_argument_name(by, "weight") == value &&
           std::ranges::count(by.operands(), value) == 1;
  });
}

}  // namespace

std::vector<int> convolutions_with_unit_dimensions(const graph& g) {
  return found_among<folded_convolution>(
      g, [](const graph_step& s) { return s.record().kind == operator_kind::convolution; }, folded_convolution_of);
}

expected<proved_task> without_unit_dimensions(const graph& g, std::span<const int> steps) {
  CUDAL1_TRY(auto found, all_found<folded_convolution>(g, steps, folded_convolution_of));
  form_writer out(g);
  for (const auto& s : g.steps()) {
    if (is_copy_for(g, s, found)) continue;
    const auto now = found.find(s.number);
    if (now == found.end()) {
      out.add(s);
      continue;
    }
    convolution_geometry& c = now->second.geometry;
    const std::string weight = folded_weight(out.changes(), now->second);
    c.input = out.seen(c.input, g.type_of(c.input).shape, now->second.input);
    aten_step made = convolution_of(c, weight, *s.text);
    made.results = {out.made(s.text->results[0], now->second.result)};
    out.changes().add(std::move(made));
  }
  CUDAL1_TRY(auto with, out.take());
  return proved_task{
      std::move(with),
      fmt::format("the kernels of steps {} have one element along a dimension, so that nothing is added up along it: "
                  "it is one with another dimension, in whose steps windows then reach over all of its elements",
                  print_steps({steps.begin(), steps.end()}))};
}

}  // namespace cudal1
