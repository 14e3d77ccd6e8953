#include "policy/graph/linear_proofs.hpp"

#include <algorithm>
#include <cmath>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

std::size_t place_of(int64_t dim, std::size_t dims) {
  return static_cast<std::size_t>(dim < 0 ? dim + static_cast<int64_t>(dims) : dim);
}

// The dimensions along which the step subtracts a mean or maximum of `dims` ones; none where it does not.
std::vector<std::size_t> centred_dims(const graph_step& s, std::size_t dims) {
  const auto& rows = s.record().traits.rows;
  std::vector<std::size_t> out;
  if (!rows) return out;
  const auto from = [&](std::size_t first) {
    for (std::size_t d = first; d < dims; ++d)
      out.push_back(d);
  };
  // Statistics that are kept from call to call would see the shift.
  const bool keeps = tensor_argument_name(s, "running_mean") || tensor_argument_name(s, "running_var");
  switch (rows->form) {
    case row_form::softmax:
    case row_form::log_softmax:
      if (const auto dim = integer_argument(s, "dim"); dim && dims > 0) out = {place_of(*dim, dims)};
      break;
    case row_form::standardize_rows:
      if (const auto shape = integers_argument(s, "normalized_shape"); shape && shape->size() <= dims)
        from(dims - shape->size());
      break;
    case row_form::standardize_channels:
      if (keeps) break;
      if (rows->extent == row_extent::batch_channels && boolean_argument(s, "training").value_or(false)) {
        out = {0};
        from(2);
      }
      if (rows->extent == row_extent::channels && boolean_argument(s, "use_input_stats").value_or(false)) from(2);
      if (rows->extent == row_extent::groups) from(1);
      break;
    default:
      break;
  }
  return out;
}

// Whether a tensor that is broadcast to `dims` dimensions is the same along this one.
bool is_same_along(const tensor_type& t, std::size_t dim, std::size_t dims) {
  const std::size_t missing = dims - t.shape.size();
  return dim < missing || t.shape[dim - missing] == 1 || t.strides[dim - missing] == 0;
}

bool is_linear(const graph& g, const graph_step& s) {
  const std::string weight = operand_of(g, s, "weight"), bias = operand_of(g, s, "bias");
  return !s.dropped && s.group < 0 && s.op() == "aten::linear" && s.result_types[0].type == dtype::float32 &&
         g.is_constant(weight) && g.type_of(weight).dim() == 2 && (bias.empty() || g.is_constant(bias));
}

}  // namespace

expected<drop_proof> prove_shift(const graph& g, const graph_step& s) {
  const auto no = [&](const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) is no shift that its readers undo: {}", s.number, s.op(), why);
  };
  const bool adds = s.op() == "aten::add.Tensor" || s.op() == "aten::add.Scalar";
  if (!adds && s.op() != "aten::sub.Tensor" && s.op() != "aten::sub.Scalar") return no("it does not add or subtract");
  const std::string& result = s.text->results[0];
  const tensor_type& type = s.result_types[0];
  if (type.type != dtype::float32 || g.is_output(result)) return no("its result is an output, or not in float32");
  std::string x = operand_of(g, s, "self"), shift = operand_of(g, s, "other");
  if (adds && !shift.empty() && g.type_of(x) != type && number_argument(s, "alpha").value_or(1) == 1)
    std::swap(x, shift);
  if (g.type_of(x) != type) return no("neither operand has the type and layout of its result");
  if (!shift.empty() && !is_floating(g.type_of(shift).type)) return no("it does not add floating numbers");
  for (const char* number : {"other", "alpha"})
    if (!std::isfinite(number_argument(s, number).value_or(0))) return no("it does not add a finite number");
  const std::size_t dims = type.shape.size();
  for (const int reader : g.readers(result)) {
    const graph_step& by = g.step_at(reader);
    const char* name = by.argument("self") != nullptr ? "self" : "input";
    const auto& others = by.text->results;
    if (std::any_of(others.begin() + 1, others.end(), [&](const auto& value) {
          return !value.empty() && (g.is_output(value) || !g.readers(value).empty());
        }))
      return no(fmt::format("step {} ({}) reads it, of which not only the first result is needed", reader, by.op()));
    const auto centred = by.is_replaced() ? std::vector<std::size_t>() : centred_dims(by, dims);
    if (centred.empty() || operand_of(g, by, name) != result || g.operands(by).front() != result ||
        std::ranges::count(g.operands(by), result) != 1)
      return no(fmt::format("step {} ({}) reads it, and does not subtract a mean or maximum", reader, by.op()));
    for (const std::size_t d : centred)
      if (!shift.empty() && !is_same_along(g.type_of(shift), d, dims))
        return no(
            fmt::format("{} differs along dimension {}, over which step {} ({}) goes", shift, d, reader, by.op()));
  }
  return drop_proof{
      x, fmt::format("step {} ({}) shifts rows of {} by one number each, and step {} subtracts its own mean "
                     "or maximum from each; assumes that {} is finite",
                     s.number, s.op(), x, print_steps(g.readers(result)), shift.empty() ? "the number" : shift)};
}

expected<composed_linear_proof> prove_composed_linear(const graph& g, const graph_step& s) {
  const auto no = [&](const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) is no linear layer of a linear layer: {}", s.number, s.op(), why);
  };
  const auto is_layer = [&](const graph_step& each) { return is_linear(g, each); };
  if (!is_layer(s)) return no("it is not aten::linear in float32 with a constant weight, outside of kernels");
  const std::string between = operand_of(g, s, "input");
  const graph_step* first = g.producer(between);
  if (first == nullptr || !is_layer(*first)) return no("its operand is not such a layer's result");
  if (g.is_output(between) || g.readers(between) != std::vector<int>{s.number})
    return no("its operand is read elsewhere");
  composed_linear_proof out{first->number,
                            operand_of(g, *first, "input"),
                            operand_of(g, *first, "weight"),
                            operand_of(g, *first, "bias"),
                            operand_of(g, s, "weight"),
                            operand_of(g, s, "bias"),
                            ""};
  const auto& inner = g.type_of(out.first_weight).shape;
  const int64_t in = inner[1], middle = inner[0], features = g.type_of(out.weight).shape[0];
  if (in * features >= middle * (in + features))
    return no(fmt::format("one layer from {} to {} features takes as many multiplications as both", in, features));
  out.certificate = fmt::format(
      "steps {} and {} (aten::linear) are one layer with the product of their weights, since nothing else reads {}: {} "
      "in place of {} multiplications a row; assumes that {} is finite",
      out.first, s.number, between, in * features, middle * (in + features), out.values);
  return out;
}

}  // namespace cudal1
