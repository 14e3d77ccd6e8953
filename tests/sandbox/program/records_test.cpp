// The records of operators: they match their schemas, and an alias has the record of its operator.
#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

bool has_argument(const operator_info& op, std::string_view name) {
  const auto& all = op.schema.arguments;
  return std::any_of(all.begin(), all.end(), [&](const schema_argument& a) { return a.name == name; });
}

TEST(operator_records, name_arguments_of_their_schemas) {
  for (const auto& r : operator_records()) {
    SCOPED_TRACE(r.name());
    const auto* op = find_operator(r.name());
    ASSERT_NE(op, nullptr);
    const auto& t = r.traits;
    std::vector<std::string_view> named{t.changes.operand, t.changes.unscaled, t.neutral.argument,
                                        t.diagonal_of,     t.product.left,     t.product.right};
    if (t.clips) named.insert(named.end(), {t.clips->low_argument, t.clips->high_argument});
    for (const auto name : named)
      EXPECT_TRUE(name.empty() || has_argument(*op, name)) << name;
  }
}

TEST(operator_records, have_expressions_over_the_arguments_that_they_list) {
  for (const auto& r : operator_records()) {
    if (!r.traits.kernel || r.traits.kernel->expression[0] == 0) continue;
    SCOPED_TRACE(r.name());
    const auto* op = find_operator(r.name());
    std::istringstream listed{std::string(r.traits.kernel->arguments)};
    std::size_t count = 0;
    for (std::string name; listed >> name; ++count)
      EXPECT_TRUE(has_argument(*op, name)) << name;
    if (count == 0) count = op->schema.arguments.size();
    const std::string_view text = r.traits.kernel->expression;
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_THAT(text, HasSubstr("$" + std::to_string(i)));
    EXPECT_EQ(text.find("$" + std::to_string(count)), text.npos);
  }
}

TEST(operator_records, refer_to_existing_operators) {
  for (const auto& r : operator_records()) {
    SCOPED_TRACE(r.name());
    for (const std::string_view other : {r.traits.with_number, r.traits.outright})
      EXPECT_TRUE(other.empty() || find_operator(other) != nullptr) << other;
  }
}

TEST(operator_records, are_the_same_under_every_name) {
  const auto* multiply = find_operator("aten::multiply.Tensor");
  ASSERT_NE(multiply, nullptr);
  EXPECT_EQ(multiply->schema.name, "aten::multiply.Tensor");
  EXPECT_EQ(multiply->record, find_operator("aten::mul.Tensor")->record);
  EXPECT_EQ(multiply->record->name(), "aten::mul.Tensor");
  const auto* swapaxes = find_operator("aten::swapaxes");
  ASSERT_NE(swapaxes, nullptr);
  EXPECT_EQ(swapaxes->schema.arguments[1].name, "axis0");
  EXPECT_EQ(swapaxes->record, find_operator("aten::transpose.int")->record);
}

TEST(operator_records, have_aliases_with_no_more_arguments) {
  for (const auto& [name, info] : operator_table())
    EXPECT_LE(info.schema.arguments.size(), find_operator(info.record->name())->schema.arguments.size()) << name;
}

TEST(operator_records, are_exported_with_their_aliases) {
  const auto document = operators_json();
  const auto& all = document.find("operators")->as_array();
  ASSERT_EQ(all.size(), operator_records().size());
  const auto mul = std::find_if(all.begin(), all.end(),
                                [](const json& r) { return r.find("name")->as_string() == "aten::mul.Tensor"; });
  ASSERT_NE(mul, all.end());
  EXPECT_EQ(mul->text(), R"({"name":"aten::mul.Tensor","kind":"pointwise","aliases":["aten::multiply.Tensor"],)"
                         R"("elementwise":true,"commutes":true,"with_number":"aten::mul.Scalar"})");
}

}  // namespace
}  // namespace cudal1
