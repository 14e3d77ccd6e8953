// Elements by the rules of the proof check are those that ATen computes.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "policy/proof_check/element_operators.hpp"
#include "sandbox/program/operators/record.hpp"
#include "tests/sandbox/interpreter/operator_harness.hpp"

namespace cudal1::operator_tests {
namespace {

// The case in float64, whose results are computed without error as far as a check sees.
operator_case in_float64(operator_case c) {
  for (auto& o : c.operands)
    o.type = contiguous(o.type.type == dtype::float32 ? dtype::float64 : o.type.type, o.type.shape);
  return c;
}

// Integers and flags are drawn as a task says; others have a draw without saying.
std::string draw_of(const operand& o) {
  if (o.type.type == dtype::bool_) return R"(, "draw": {"distribution": "bernoulli", "probability": 0.5})";
  if (!is_integral(o.type.type)) return "";
  return fmt::format(R"(, "draw": {{"distribution": "integer", "low": 0, "high": {}}})", o.below);
}

expected<task> task_of(const operator_case& c, std::size_t results) {
  std::string inputs, outputs = R"("r")";
  for (const auto& o : c.operands)
    inputs += fmt::format(R"({}{{"name": "{}", "dtype": "{}", "shape": [{}], "facts": [{}]{}}})",
                          inputs.empty() ? "" : ",", o.name, name_of(o.type.type), fmt::join(o.type.shape, ","),
                          o.positive ? R"("non_negative")" : "", draw_of(o));
  for (std::size_t i = 1; i < results; ++i)
    outputs += R"(, "")";
  return read_task(fmt::format(R"({{"format": 1, "name": "t", "family": "test", "inputs": [{}], "steps": [
      {{"aten": "{}", "args": {}, "out": [{}]}}, {{"aten": "aten::clone", "args": {{"self": "r"}}, "out": ["y"]}}],
      "outputs": ["y"]}})",
                               inputs, c.op, c.args, outputs),
                   "cpu");
}

at::Tensor filled(const operand& o, element_values& values) {
  at::Tensor out = at::empty(o.type.shape, at::TensorOptions(at::kDouble));
  auto* data = out.data_ptr<double>();
  for (int64_t i = 0; i < o.type.numel(); ++i)
    data[i] = values.at(o.name, place_of(i, o.type.shape));
  const std::map<dtype, at::ScalarType> integers = {{dtype::int64, at::kLong},  {dtype::int32, at::kInt},
                                                    {dtype::int16, at::kShort}, {dtype::uint8, at::kByte},
                                                    {dtype::int8, at::kChar},   {dtype::bool_, at::kBool}};
  const auto found = integers.find(o.type.type);
  return found == integers.end() ? out : out.to(found->second);
}

// "" if all elements are equal, or what differs.
std::string difference(const operator_case& c, const task& t) {
  const graph g(t);
  const std::set<std::string> computed = {"r"};
  element_values values(g, {element_values::version::of_task, &computed, 7, 2, 1'000'000});
  std::map<std::string, at::Tensor> operands;
  for (const auto& o : c.operands)
    operands.emplace(o.name, filled(o, values));
  const at::Tensor wanted = called_directly(c, operands).front().to(at::kDouble).contiguous();
  const auto* data = wanted.data_ptr<double>();
  const auto& shape = g.type_of("r").shape;
  for (int64_t i = 0; i < wanted.numel(); ++i) {
    const double got = values.at("r", place_of(i, shape));
    if (!values.problem().empty()) return values.problem();
    if (std::isnan(got) && std::isnan(data[i])) continue;
    if (got == data[i] || std::fabs(got - data[i]) <= 1e-6 * std::max(1.0, std::fabs(data[i]))) continue;
    return fmt::format("element {} is {} in place of {}", i, got, data[i]);
  }
  return "";
}

// What the rules say that they do not know.
bool is_left_out(const std::string& problem) {
  for (const char* known : {"in training mode", "beside the main one", "over other dimensions", "without a batch",
                            "in groups", "of this order", "by repetition"})
    if (problem.find(known) != std::string::npos) return true;
  return false;
}

std::vector<const char*> cases() {
  auto out = operator_cases();
  out.insert(out.end(),
             {R"(aten::diag | a=f[5] | {"self":"a"})", R"(aten::type_as | a=f[4,5] c=f[2] | {"self":"a","other":"c"})",
              R"(aten::new_ones | a=f[4] | {"self":"a","size":[2,3]})"});
  std::ranges::copy_if(operator_database_cases(), std::back_inserter(out),
                       [](std::string_view line) { return line.starts_with("aten::bitwise_"); });
  return out;
}

TEST(element_rules, give_the_elements_that_aten_computes) {
  std::set<std::string_view> tried;
  for (const char* line : cases()) {
    const operator_case c = in_float64(parse_case(line));
    const auto* info = find_operator(c.op);
    ASSERT_NE(info, nullptr) << line;
    if (find_element_rule(info->record->name()) == nullptr) continue;
    const auto types = typed_by_rule(c);
    if (!types || types->front().type.numel() == 0) continue;  // not in float64
    const auto t = task_of(c, types->size());
    if (!t) continue;  // an operand or an argument that no task has
    SCOPED_TRACE(line);
    try {
      const std::string problem = difference(c, *t);
      EXPECT_TRUE(problem.empty() || is_left_out(problem)) << problem;
      if (problem.empty()) tried.insert(info->record->name());
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
  for (const auto& family : {elementwise_rules(), moving_rules(), row_rules(), product_rules()})
    for (const auto& [op, rule] : family)
      EXPECT_TRUE(!op.starts_with("aten::") || tried.contains(op)) << op << " was not tried";
}

}  // namespace
}  // namespace cudal1::operator_tests
