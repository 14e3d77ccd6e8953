#include "policy/body/operators/row_dot.hpp"

#include "policy/body/operator_values.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::row_dot";

expected<row_domain> rows_of_values(const graph& g, const graph_step& s) {
  const tensor_type& type = g.type_of(g.resolve(*tensor_argument_name(s, "values")));
  if (type.type != dtype::float32) return fail(errc::unsupported, "row kernels do not support {}", name_of(type.type));
  row_domain out;
  out.shape = type.shape;
  out.reduced = {type.dim() - 1};
  return out;
}

// In double: one long sum replaces many short ones, and its terms may cancel.
expected<void> build_row_dot(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s, "values", dtype::float64));
  std::vector<int64_t> strides(b.shape().size(), 0);
  strides.back() = 1;
  const int weights = b.strided_load(*tensor_argument_name(s, "weights"), strides);
  int y = b.reduce(reduction_kind::sum, b.pointwise("$0 * $1", {x, weights}, dtype::float64));
  if (const auto offset = tensor_argument_name(s, "offset")) {
    strides.back() = 0;
    y = b.pointwise("$0 + $1", {y, b.strided_load(*offset, strides)}, dtype::float64);
  }
  const double factor = *number_argument(s, "factor");
  if (factor != 1) y = b.pointwise("$0 * $1", {y, b.constant(factor, dtype::float64)}, dtype::float64);
  return b.bind(s, 0, y);
}

}  // namespace

operator_use row_dot(const graph& g, const std::string& values, const std::string& weights, const std::string& offset,
                     double factor) {
  operator_use out{k_name,
                   {{"values", tensor_argument{values, g.type_of(values)}},
                    {"weights", tensor_argument{weights, g.type_of(weights)}}}};
  if (!offset.empty()) out.arguments.emplace_back("offset", tensor_argument{offset, g.type_of(offset)});
  out.arguments.emplace_back("factor", scalar_value(factor));
  return out;
}

body_operator row_dot_operator() {
  return {k_name, nullptr, row_operator{operator_family::reduction, rows_of_values, build_row_dot}};
}

}  // namespace cudal1
