// Every operator of the table, at least once: the rule's types are ATen's, including strides, and a program with this
// one step gives the same values as a direct call.
#include <set>

#include <gtest/gtest.h>

#include "tests/sandbox/interpreter/operator_harness.hpp"

namespace cudal1::operator_tests {
namespace {

TEST(operator_cases, types_and_values_equal_those_of_a_direct_call) {
  uint64_t seed = 1;
  for (const auto* line : operator_cases()) {
    SCOPED_TRACE(line);
    try {
      EXPECT_EQ(compare_with_direct_call(parse_case(line), seed++), "");
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(operator_cases, cover_the_whole_table) {
  std::set<std::string> missing;
  for (const auto& [name, info] : operator_table())
    missing.insert(name);
  for (const auto* line : operator_cases())
    missing.erase(parse_case(line).op);
  EXPECT_TRUE(missing.empty()) << *missing.begin() << " and " << missing.size() - 1 << " more";
}

TEST(operator_cases, schemas_equal_those_of_this_libtorch) {
  const auto mismatches = schema_mismatches();
  EXPECT_TRUE(mismatches.empty()) << mismatches.front();
}

}  // namespace
}  // namespace cudal1::operator_tests
