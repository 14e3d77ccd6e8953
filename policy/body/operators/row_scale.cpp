#include "policy/body/operators/row_scale.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::row_scale";

// Reads only the diagonal, not the zeros around it.
expected<void> build_row_scale(body_builder& b, const graph_step& s) {
  const auto& shape = b.shape();
  if (shape.size() != 2 || shape != s.result_types[0].shape)
    return fail(errc::unsupported, "a diagonal product needs a kernel whose elements are its two-dimensional result");
  const int64_t stride = *integer_argument(s, "diagonal_stride");
  const bool rows = *boolean_argument(s, "scales_rows");
  const int scale = b.strided_load(b.program().resolve(*tensor_argument_name(s, "diagonal")),
                                   rows ? std::vector<int64_t>{stride, 0} : std::vector<int64_t>{0, stride});
  CUDAL1_TRY(const int matrix, b.operand(s, "matrix", s.result_types[0], dtype::float32));
  return b.bind(s, 0, b.pointwise("$0 * $1", {scale, matrix}));
}

}  // namespace

operator_use row_scale(const graph& g, const diagonal_proof& of) {
  return {k_name,
          {{"diagonal", tensor_argument{of.diagonal, g.type_of(of.diagonal)}},
           {"matrix", tensor_argument{of.matrix, g.type_of(of.matrix)}},
           {"diagonal_stride", scalar_value(of.diagonal_stride)},
           {"scales_rows", scalar_value(of.scales_rows)}}};
}

body_operator row_scale_operator() {
  return {k_name, build_row_scale, std::nullopt};
}

}  // namespace cudal1
