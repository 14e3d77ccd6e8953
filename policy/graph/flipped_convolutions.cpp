#include "policy/graph/flipped_convolutions.hpp"

#include <map>
#include <utility>

#include <fmt/ranges.h>

#include "policy/graph/convolution_geometry.hpp"
#include "policy/graph/found_steps.hpp"

namespace cudal1 {

namespace {

// The transposed convolution's; its padding is that of the convolution.
expected<convolution_geometry> flippable_of(const graph& g, int number) {
  if (!g.has_step(number)) return fail(errc::invalid_argument, "there is no step {}", number);
  const graph_step& s = g.step_at(number);
  const auto no = [&](const std::string& why) { return fail(errc::invalid_argument, "step {}: {}", number, why); };
  CUDAL1_TRY(convolution_geometry out, geometry_of(g, s));
  if (!out.transposed) return no("it is no transposed convolution");
  if (!g.is_constant(out.weight)) return no(out.weight + " is no weight");
  if (!geometry_is(out.stride, 1)) return no("its windows move by more than one element");
  if (!geometry_is(out.output_padding, 0)) return no("it has output_padding");
  for (std::size_t d = 0; d < out.padding.size(); ++d) {
    out.padding[d] = out.dilation[d] * (g.type_of(out.weight).shape[d + 2] - 1) - out.padding[d];
    if (out.padding[d] < 0) return no("more is cut off its result than its weights reach");
  }
  return out;
}

// The weights of the convolution: [outputs, inputs / groups, space], from [inputs, outputs / groups, space].
std::string flipped_weight(program_changes& out, const graph& g, const convolution_geometry& c) {
  const auto& shape = g.type_of(c.weight).shape;
  json::array in_space;
  for (std::size_t d = 2; d < shape.size(); ++d)
    in_space.emplace_back(static_cast<int64_t>(d));
  const auto set_up = [&](const char* op, step_arguments args) {
    return json(out.at_set_up(op, std::move(args), c.weight + "_flipped"));
  };
  json now = set_up("aten::flip", {{"self", json(c.weight)}, {"dims", json(std::move(in_space))}});
  if (c.groups == 1) {
    now = set_up("aten::transpose.int", {{"self", now}, {"dim0", json(0)}, {"dim1", json(1)}});
    return std::string(set_up("aten::contiguous", {{"self", now}}).as_string());
  }
  std::vector<int64_t> grouped = {c.groups, shape[0] / c.groups},
                       exchanged = {c.groups * shape[1], shape[0] / c.groups};
  grouped.insert(grouped.end(), shape.begin() + 1, shape.end());
  exchanged.insert(exchanged.end(), shape.begin() + 2, shape.end());
  now = set_up("aten::reshape", {{"self", now}, {"shape", list_of(grouped)}});
  now = set_up("aten::transpose.int", {{"self", now}, {"dim0", json(1)}, {"dim1", json(2)}});
  return std::string(set_up("aten::reshape", {{"self", now}, {"shape", list_of(exchanged)}}).as_string());
}

}  // namespace

std::vector<int> flippable_convolutions(const graph& g) {
  return found_among<convolution_geometry>(
      g, [](const graph_step& s) { return s.record().traits.transposed; }, flippable_of);
}

expected<proved_task> with_flipped_weights(const graph& g, std::span<const int> steps) {
  CUDAL1_TRY(const auto found, all_found<convolution_geometry>(g, steps, flippable_of));
  program_changes changes(g.origin().reference);
  for (const auto& s : g.steps()) {
    const auto flipped = found.find(s.number);
    if (flipped == found.end())
      changes.add(*s.text);
    else
      changes.add(convolution_of(flipped->second, flipped_weight(changes, g, flipped->second), *s.text));
  }
  CUDAL1_TRY(auto with, with_program(g.origin(), changes.take()));
  return proved_task{
      std::move(with),
      fmt::format(
          "the windows of steps {} move by one element: each result is the sum of the elements around it, as in "
          "a convolution, where the last weight meets the first element",
          print_steps({steps.begin(), steps.end()}))};
}

}  // namespace cudal1
