#include "policy/body/operators/constant_fill.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::constant_fill";

expected<void> build_constant_fill(body_builder& b, const graph_step& s) {
  const std::vector<int64_t> strides(b.shape().size(), 0);
  return b.bind(s, 0, b.strided_load(*tensor_argument_name(s, "number"), strides));
}

}  // namespace

operator_use constant_fill(const graph& g, const std::string& number) {
  return {k_name, {{"number", tensor_argument{number, g.type_of(number)}}}};
}

body_operator constant_fill_operator() {
  return {k_name, build_constant_fill, std::nullopt};
}

}  // namespace cudal1
