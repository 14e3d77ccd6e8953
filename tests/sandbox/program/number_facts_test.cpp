// What is known of the numbers of a value, and which values are constant or equal an input: also where a number may be
// infinite, NaN or zero.
#include "sandbox/program/operators/number_facts.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "sandbox/program/operators/constant_result.hpp"

namespace cudal1 {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Of inputs x and z, p (not negative), q (uint8) and s (one element a row), all finite; "relu(self=x); ..." in short,
// the last step's result is y.
task task_of(const std::vector<std::string>& steps) {
  std::string all;
  for (const auto& s : steps) {
    const auto open = s.find('('), equals = s.find(" = ");
    all += fmt::format(R"({}{{"aten": "aten::{}", "args": {{{}}}, "out": ["{}"]}})", all.empty() ? "" : ", ",
                       s.substr(equals + 3, open - equals - 3), s.substr(open + 1, s.rfind(')') - open - 1),
                       s.substr(0, equals));
  }
  auto read = read_task(fmt::format(R"({{"format": 1, "name": "t", "family": "test", "inputs": [
      {{"name": "x", "dtype": "float32", "shape": [4, 6]}}, {{"name": "z", "dtype": "float32", "shape": [4, 6]}},
      {{"name": "p", "dtype": "float32", "shape": [4, 6], "facts": ["non_negative"]}},
      {{"name": "q", "dtype": "uint8", "shape": [4, 6], "draw": {{"distribution": "integer", "low": 0, "high": 256}}}},
      {{"name": "s", "dtype": "float32", "shape": [4, 1]}}], "steps": [{}], "outputs": ["y"]}})",
                                    all),
                        "cpu");
  if (!read) throw std::runtime_error(read.error().message + ": " + all);
  return std::move(*read);
}

number_facts facts_of(const std::vector<std::string>& steps) {
  return number_facts_of(task_of(steps)).at("y");
}

struct finite_case {
  std::vector<std::string> steps;
  finiteness expected;
};

TEST(NumberFacts, SayWhetherNumbersStayFinite) {
  using enum finiteness;
  const std::vector<finite_case> cases = {
      {{R"(y = exp("self": "x"))"}, kept},
      {{R"(y = mm("self": "x", "mat2": "w"))"}, kept},
      {{R"(y = div.Scalar("self": "x", "other": 3))"}, kept},
      {{R"(y = div.Scalar("self": "x", "other": 0))"}, lost},
      {{R"(a = abs("self": "x"))", R"(y = div.Scalar("self": "a", "other": 0))"}, lost},
      {{R"(a = div.Scalar("self": "x", "other": 0))", R"(y = mul.Scalar("self": "a", "other": 0))"}, nan},
      {{R"(a = div.Scalar("self": "x", "other": 0))", R"(y = mul.Tensor("self": "a", "other": "z"))"}, lost},
      {{R"(a = div.Scalar("self": "x", "other": 0))", R"(y = add.Tensor("self": "z", "other": "a"))"}, lost},
      {{R"(a = div.Scalar("self": "x", "other": 0))", R"(y = div.Tensor("self": "z", "other": "a"))"}, unknown},
      {{R"(a = div.Scalar("self": "x", "other": 0))", R"(y = sigmoid("self": "a"))"}, unknown},
      {{R"(a = div.Scalar("self": "x", "other": 0))", R"(y = clamp("self": "a", "min": 0, "max": 1))"}, unknown},
      {{R"(y = div.Tensor("self": "x", "other": "z"))"}, unknown},
      {{R"(y = div.Tensor("self": "x", "other": "p"))"}, unknown},
      {{R"(a = clamp_min("self": "p", "min": 1e-6))", R"(y = div.Tensor("self": "x", "other": "a"))"}, kept},
      {{R"(y = reciprocal("self": "x"))"}, unknown},
      {{R"(y = log("self": "p"))"}, unknown},
      {{R"(a = clamp_min("self": "x", "min": 0.5))", R"(y = log("self": "a"))"}, kept},
      {{R"(y = sqrt("self": "p"))"}, kept},
      {{R"(y = sqrt("self": "x"))"}, unknown},
      {{R"(y = pow.Tensor_Scalar("self": "x", "exponent": 2))"}, kept},
      {{R"(y = pow.Tensor_Scalar("self": "x", "exponent": 0.5))"}, unknown},
      {{R"(y = pow.Tensor_Scalar("self": "x", "exponent": -1))"}, unknown},
      {{R"(y = add.Scalar("self": "x", "other": "inf"))"}, lost},
      {{R"(y = mul.Scalar("self": "x", "other": "nan"))"}, nan},
      {{R"(m = gt.Scalar("self": "z", "other": 0))",
        R"(y = masked_fill.Scalar("self": "x", "mask": "m", "value": "-inf"))"},
       unknown},
      {{R"(y = std.correction("self": "x", "dim": [1]))"}, unknown},
      {{R"(y = softmax.int("self": "x", "dim": 1))"}, kept},
      {{R"(y = layer_norm("input": "x", "normalized_shape": [6], "eps": 1e-5))"}, kept},
      {{R"(y = layer_norm("input": "x", "normalized_shape": [6], "eps": 0))"}, unknown},
      {{R"(a = div.Scalar("self": "x", "other": 0))", R"(y = argmax("self": "a", "dim": 1))"}, kept},
      {{R"(y = full("size": [3], "fill_value": "inf", "dtype": "float32"))"}, lost}};
  for (const auto& c : cases) {
    auto steps = c.steps;
    if (steps.front().find("\"w\"") != std::string::npos) steps.insert(steps.begin(), R"(w = t("self": "z"))");
    EXPECT_EQ(enum_name(facts_of(steps).finite), enum_name(c.expected)) << steps.back();
  }
}

struct range_case {
  std::vector<std::string> steps;
  double low, high;
};

TEST(NumberFacts, SayInWhichRangeNumbersAre) {
  const std::vector<range_case> cases = {
      {{R"(y = sigmoid("self": "x"))"}, 0, 1},
      {{R"(y = relu("self": "x"))"}, 0, infinity},
      {{R"(a = sigmoid("self": "x"))", R"(y = clamp("self": "a", "min": 0.5, "max": 3))"}, 0.5, 1},
      {{R"(y = clamp("self": "x", "min": 3, "max": 1))"}, -infinity, infinity},
      {{R"(y = mul.Tensor("self": "x", "other": "x"))"}, 0, infinity},
      // Integers wrap around.
      {{R"(a = to.dtype("self": "q", "dtype": "int32"))", R"(y = mul.Tensor("self": "a", "other": "a"))"},
       -infinity,
       infinity},
      {{R"(a = full("size": [6], "fill_value": 2, "dtype": "float32"))", R"(y = minimum("self": "x", "other": "a"))"},
       -infinity,
       2},
      {{R"(y = clone("self": "p"))"}, 0, infinity},
      {{R"(y = bitwise_and.Scalar("self": "q", "other": 15))"}, 0, 15},
      {{R"(y = bitwise_right_shift.Tensor_Scalar("self": "q", "other": 4))"}, 0, 15},
      {{R"(y = add.Scalar("self": "q", "other": 9))"}, 0, 255},
      {{R"(y = neg("self": "p"))"}, -infinity, infinity}};
  for (const auto& c : cases) {
    const bounds found = facts_of(c.steps).within;
    EXPECT_EQ(found.low, c.low) << c.steps.back();
    EXPECT_EQ(found.high, c.high) << c.steps.back();
  }
}

bool is_constant(const std::vector<std::string>& steps) {
  return relations_of(task_of(steps)).is_constant("y");
}

TEST(ConstantResults, AreProvedWhereEveryNumberBeforeThemIsFinite) {
  const std::string divided = R"(a = div.Scalar("self": "x", "other": 0))",
                    full = R"(c = full("size": [6], "fill_value": 0.5, "dtype": "float32"))";
  const std::vector<std::vector<std::string>> proved = {
      {R"(y = mul.Scalar("self": "x", "other": 0))"},
      {R"(y = sub.Tensor("self": "x", "other": "x"))"},
      {R"(y = softmax.int("self": "s", "dim": 1))"},
      {R"(m = clamp_max("self": "x", "max": 0.0))", R"(y = clamp("self": "m", "min": 0.0, "max": 1.0))"},
      {full, R"(m = minimum("self": "x", "other": "c"))", R"(y = clamp("self": "m", "min": 0.5, "max": 1.0))"},
      {R"(m = sigmoid("self": "x"))", R"(y = clamp_min("self": "m", "min": 1.0))"},
      // NaN everywhere.
      {divided, R"(y = mul.Scalar("self": "a", "other": 0))"}};
  for (const auto& steps : proved)
    EXPECT_TRUE(is_constant(steps)) << steps.back();
  const std::vector<std::vector<std::string>> open = {
      {R"(a = abs("self": "x"))", R"(y = div.Scalar("self": "a", "other": 0))"},  // NaN at 0
      {R"(y = sub.Tensor("self": "x", "other": "x", "alpha": 2))"},
      {divided, R"(y = clamp("self": "a", "min": 0, "max": 0))"},
      {R"(a = reciprocal("self": "x"))", R"(y = mul.Scalar("self": "a", "other": 0))"},
      {R"(a = log("self": "x"))", R"(y = sub.Tensor("self": "a", "other": "a"))"},
      {R"(a = log("self": "s"))", R"(y = softmax.int("self": "a", "dim": 1))"},
      {R"(a = log("self": "x"))", R"(m = clamp_max("self": "a", "max": 0.0))",
       R"(y = clamp("self": "m", "min": 0.0, "max": 1.0))"},
      {R"(a = div.Tensor("self": "x", "other": "z"))", R"(y = clamp("self": "a", "min": 2, "max": 1))"}};
  for (const auto& steps : open)
    EXPECT_FALSE(is_constant(steps)) << steps.back();
}

TEST(EqualValues, AreFoundThroughOperatorsThatChangeNothing) {
  const auto origin = [](const std::vector<std::string>& steps) { return relations_of(task_of(steps)).origin_of("y"); };
  EXPECT_EQ(origin({R"(d = dropout("input": "x", "p": 0.5, "train": false))", R"(y = clone("self": "d"))"}), "x");
  EXPECT_EQ(origin({R"(a = mul.Scalar("self": "x", "other": 1))", R"(y = add.Scalar("self": "a", "other": 0))"}), "x");
  EXPECT_EQ(origin({R"(a = relu("self": "p"))", R"(y = abs("self": "a"))"}), "p");
  EXPECT_EQ(origin({R"(y = clamp_min("self": "p", "min": -1))"}), "p");
  EXPECT_EQ(origin({R"(y = relu("self": "x"))"}), "y");
  EXPECT_EQ(origin({R"(y = clamp_min("self": "p", "min": 1))"}), "y");
}

}  // namespace
}  // namespace cudal1
