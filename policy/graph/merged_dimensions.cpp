#include "policy/graph/merged_dimensions.hpp"

#include <algorithm>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

// The step that makes a value, if it is a copy of a library into the order of its dimensions.
const graph_step* contiguous_copy(const graph& g, const std::string& value) {
  const graph_step* s = g.producer(value);
  const bool copies = s != nullptr && s->record().kind == operator_kind::copy && s->result_types.size() == 1;
  if (!copies || s->is_replaced() || s->group >= 0 || !s->result_types[0].is_contiguous()) return nullptr;
  const auto from = tensor_argument_name(*s, "self");
  if (!from) return nullptr;
  const tensor_type& type = g.type_of(g.resolve(*from));
  return type.type == s->result_types[0].type && type.shape == s->result_types[0].shape ? s : nullptr;
}

// Whether the step leaves out the last elements of a dimension, if any.
bool takes_first_elements(const graph& g, const graph_step& s) {
  const bool slices = s.op() == "aten::narrow" || s.op() == "aten::slice.Tensor";
  return slices && integer_argument(s, "start").value_or(0) == 0 && integer_argument(s, "step").value_or(1) == 1 &&
         g.type_of(g.resolve(*tensor_argument_name(s, "self"))).dim() == s.result_types[0].dim();
}

// How many dimensions of `from` each one of `to` consists of; empty where these are more than two, or others.
std::vector<int64_t> merged_parts(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  std::vector<int64_t> out;
  std::size_t next = 0;
  for (const int64_t size : to) {
    if (next >= from.size()) return {};
    if (from[next] == size) {
      out.push_back(1);
    } else if (next + 1 < from.size() && from[next] * from[next + 1] == size) {
      out.push_back(2);
    } else {
      return {};
    }
    next += static_cast<std::size_t>(out.back());
  }
  return next == from.size() ? out : std::vector<int64_t>();
}

}  // namespace

expected<merged_dimensions_proof> prove_merged_dimensions(const graph& g, const graph_step& s) {
  const auto no = [&](std::string_view why) {
    return fail(errc::invalid_argument, "step {} ({}) copies no merged dimensions: {}", s.number, s.task_op(), why);
  };
  if (s.dropped || s.text->results.empty() || contiguous_copy(g, s.text->results[0]) != &s)
    return no("it is no library's copy");
  merged_dimensions_proof out;
  // The step before one of the chain; null where something else reads what it makes.
  const auto before = [&](const graph_step& of) -> const graph_step* {
    const std::string value = g.resolve(*tensor_argument_name(of, "self"));
    const graph_step* made = g.producer(value);
    if (made == nullptr || g.is_output(value) || g.readers(value) != std::vector<int>{of.number}) return nullptr;
    out.left_out.push_back(made->number);
    return made;
  };
  const graph_step* view = before(s);
  while (view != nullptr && takes_first_elements(g, *view))
    view = before(*view);
  if (view == nullptr || (view->op() != "aten::view" && view->op() != "aten::reshape"))
    return no("it copies no view that it alone reads");
  const graph_step* copy = before(*view);
  if (copy == nullptr || contiguous_copy(g, copy->text->results[0]) != copy)
    return no("the view is of no copy that it alone reads");
  out.parts = merged_parts(copy->result_types[0].shape, view->result_types[0].shape);
  if (std::ranges::count(out.parts, 2) == 0) return no("the view merges no pairs of dimensions");
  out.view = g.resolve(*tensor_argument_name(*copy, "self"));
  out.certificate = fmt::format(
      "step {}: each element of a merged dimension is that of the two in the copy of step {}, which has the elements "
      "of "
      "{}",
      s.number, copy->number, out.view);
  return out;
}

}  // namespace cudal1
