#include "policy/body/operators/extremum_index.hpp"

#include <algorithm>
#include <numeric>

#include "policy/body/operator_values.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::extremum_index";
constexpr int64_t k_exact = int64_t{1} << 24;  // whole numbers up to this one are floats

const tensor_type& type_of_values(const graph& g, const graph_step& s) {
  return g.type_of(g.resolve(*tensor_argument_name(s, s.is_replaced() ? "values" : "self")));
}

expected<row_domain> searched_rows(const graph& g, const graph_step& s) {
  row_domain out;
  out.shape = type_of_values(g, s).shape;
  out.reduced = *integers_argument(s, "dims");
  return out;
}

expected<void> build_extremum_index(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s, "values"));
  std::vector<int64_t> strides(b.shape().size(), 0);
  int64_t below = 1;
  for (std::size_t i = b.rows().reduced.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(b.rows().reduced[i]);
    strides[d] = below;
    below *= b.shape()[d];
  }
  const int position = b.strided_load(*tensor_argument_name(s, "positions"), strides);
  const bool largest = *boolean_argument(s, "largest");
  const int extremum = b.reduce(largest ? reduction_kind::max : reduction_kind::min, x);
  const int nowhere = b.constant(static_cast<double>(b.columns()));
  const int place = b.pointwise("$0 == $1 || $0 != $0 ? $2 : $3", {x, extremum, position, nowhere}, dtype::float32, 3);
  return b.bind(s, 0, b.reduce(reduction_kind::min, place));
}

}  // namespace

expected<searched_row> searched_row_of(const graph& g, const graph_step& s) {
  if (s.op() != "aten::argmax" && s.op() != "aten::argmin")
    return fail(errc::invalid_argument, "step {} ({}) is neither argmax nor argmin", s.number, s.op());
  const tensor_type& type = type_of_values(g, s);
  if (computed_in(type.type) != dtype::float32)
    return fail(errc::unsupported, "{} of {} stays a library call", s.op(), name_of(type.type));
  if (type.dim() == 0) return fail(errc::unsupported, "a single element has no rows");
  searched_row out;
  out.dims.resize(type.shape.size());
  std::iota(out.dims.begin(), out.dims.end(), int64_t{0});
  if (const auto dim = integer_argument(s, "dim")) out.dims = {*dim < 0 ? *dim + type.dim() : *dim};
  for (const int64_t d : out.dims)
    out.columns *= type.shape[static_cast<std::size_t>(d)];
  if (out.columns > k_exact)
    return fail(errc::unsupported,
                "{} over {} elements stays a library call: indices above 2^24 are not exact in float32", s.op(),
                out.columns);
  return out;
}

operator_use extremum_index(const graph& g, const graph_step& s, const std::string& positions) {
  const std::string values = *tensor_argument_name(s, "self");
  return {k_name,
          {{"values", tensor_argument{values, g.type_of(g.resolve(values))}},
           {"positions", tensor_argument{positions, g.type_of(positions)}},
           {"dims", searched_row_of(g, s)->dims},
           {"largest", scalar_value(s.op() == "aten::argmax")}}};
}

body_operator extremum_index_operator() {
  return {k_name, nullptr, row_operator{operator_family::reduction, searched_rows, build_extremum_index}};
}

}  // namespace cudal1
