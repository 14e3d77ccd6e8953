#include "policy/codegen/operator_values.hpp"

#include <bit>
#include <sstream>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

expected<int> operand_or_number(body_builder& b, const graph_step& s, const char* name, const tensor_type& result,
                                dtype type) {
  if (tensor_argument_name(s, name)) return b.operand(s, name, result, type);
  const auto number = number_argument(s, name);
  if (!number) return fail(errc::unsupported, "{} has no value for {}", s.op(), name);
  return b.constant(*number, type);
}

expected<int> expression_node(body_builder& b, const graph_step& s, const tensor_type& result, dtype compute,
                              dtype type) {
  const element_kernel& kernel = *s.record().traits.kernel;
  std::vector<int> operands;
  const auto add = [&](const std::string& name) -> expected<void> {
    CUDAL1_TRY(const int n, operand_or_number(b, s, name.c_str(), result, compute));
    operands.push_back(n);
    return {};
  };
  std::istringstream listed{std::string(kernel.arguments)};
  for (std::string name; listed >> name;)
    CUDAL1_CHECK(add(name));
  if (kernel.arguments.empty()) {
    for (const auto& [name, value] : s.use->arguments)
      CUDAL1_CHECK(add(name));
  }
  return b.pointwise(kernel.expression, std::move(operands), type, kernel.cost);
}

expected<int> elements(body_builder& b, const graph_step& s, const char* name) {
  tensor_type full;
  full.shape = b.domain().shape;
  return b.operand(s, name, full, dtype::float32);
}

// Rounded once, as the operator's: the mean of equal elements is that element wherever their sum is exact, so that
// nothing is left of them when it is subtracted. A power of two has an exact reciprocal.
int mean_of(body_builder& b, int x) {
  const int sum = b.reduce(reduction_kind::sum, x);
  const auto columns = static_cast<double>(b.columns());
  if (std::has_single_bit(static_cast<uint64_t>(b.columns())))
    return b.pointwise("$0 * $1", {sum, b.constant(1 / columns)});
  return b.pointwise("$0 / $1", {sum, b.constant(columns)}, dtype::float32, 4);
}

}  // namespace cudal1
