#include "policy/body/operator_values.hpp"

#include <cmath>
#include <sstream>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

expected<int> operand_or_number(body_builder& b, const graph_step& s, const char* name, const tensor_type& result,
                                dtype type) {
  if (tensor_argument_name(s, name)) return b.operand(s, name, result, type);
  const auto number = number_argument(s, name);
  if (!number) return fail(errc::unsupported, "{} has no value for {}", s.op(), name);
  if (is_integral(type) && std::fabs(*number) >= 0x1p53)  // it may have been rounded
    return fail(errc::unsupported, "{} with a number of more than 53 bits stays a library call", s.op());
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

expected<int> elements(body_builder& b, const graph_step& s, const char* name, dtype type) {
  tensor_type full;
  full.shape = b.shape();
  return b.operand(s, name, full, type);
}

expected<void> check_only_first_is_read(const body_builder& b, const graph_step& s, const char* what) {
  for (std::size_t r = 1; r < s.text->results.size(); ++r) {
    const std::string& value = s.text->results[r];
    if (!value.empty() && (!b.program().readers(value).empty() || b.program().is_output(value)))
      return fail(errc::unsupported, "{} whose {} are read stays a library call", s.op(), what);
  }
  return {};
}

// Rounded once, as the operator's: the mean of equal elements is that element wherever their sum is exact, so that
// nothing is left of them when it is subtracted. A power of two has an exact reciprocal.
int rounded_to(body_builder& b, int x, dtype half) {
  return b.pointwise(loaded(half, stored(half, "$0")), {x});
}

int divided(body_builder& b, int sum, double count) {
  int exponent = 0;
  if (std::frexp(count, &exponent) == 0.5) return b.pointwise("$0 * $1", {sum, b.constant(1 / count)});
  return b.pointwise("$0 / $1", {sum, b.constant(count)}, dtype::float32, 4);
}

int mean_of(body_builder& b, int x) {
  return divided(b, b.reduce(reduction_kind::sum, x), static_cast<double>(b.columns()));
}

}  // namespace cudal1
