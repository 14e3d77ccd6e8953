#include "policy/body/operators/merged_read.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::merged_dimensions";

expected<void> build_merged(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int n,
             b.merged_load(*tensor_argument_name(s, "self"), *integers_argument(s, "parts"), s.result_types[0]));
  return b.bind(s, 0, n);
}

}  // namespace

operator_use merged_dimensions(const graph& g, const merged_dimensions_proof& of) {
  return {k_name, {{"self", tensor_argument{of.view, g.type_of(of.view)}}, {"parts", of.parts}}};
}

body_operator merged_dimensions_operator() {
  return {k_name, build_merged, std::nullopt};
}

}  // namespace cudal1
