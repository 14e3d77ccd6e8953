#include "sandbox/referee/output_form.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace cudal1 {
namespace {

// Ignores the strides of dimensions of size one.
bool same_strides(const tensor_type& a, const tensor_type& b) {
  for (std::size_t d = 0; d < a.shape.size(); ++d)
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

// Whether that output is an input or a weight, or a view of one.
bool is_input_or_weight(const checked_program& p, const std::string& output) {
  const auto view = p.view_of.find(output);
  const std::string& root = view == p.view_of.end() ? output : view->second;
  const auto named = [&](const tensor_declaration& d) { return d.name == root; };
  return std::ranges::any_of(p.text.inputs, named) || std::ranges::any_of(p.text.weights, named);
}

}  // namespace

std::string type_problem(const checked_program& variant, const checked_program& reference, std::size_t index,
                         const std::string& alias) {
  const std::string& name = variant.text.outputs[index];
  if (index >= reference.text.outputs.size()) return "the task has no such output";
  const tensor_type& got = variant.types.at(name);
  const tensor_type& want = reference.types.at(reference.text.outputs[index]);
  if (got.type != want.type || got.shape != want.shape || !same_strides(got, want))
    return fmt::format("it is {} and should be {}", got.text(), want.text());
  if (!alias.empty() && !is_input_or_weight(reference, reference.text.outputs[index]))
    return "it shares memory with " + alias;
  return "";
}

}  // namespace cudal1
