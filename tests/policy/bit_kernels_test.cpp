// Operators on bits as kernels: the gates accept them for integers of every width, with amounts of shifts that C does
// not define, for every target.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/judged_task.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

struct integer_type {
  const char* name;
  int64_t low, high;  // of what is drawn: all of a narrow type's numbers
  int width;
};
constexpr integer_type types[] = {{"uint8", 0, 256, 8},
                                  {"int8", -128, 128, 8},
                                  {"int16", -32768, 32768, 16},
                                  {"int32", -2147483648, 2147483647, 32},
                                  {"int64", -9007199254740992, 9007199254740992, 64}};

task task_of(const std::string& inputs, const std::string& steps) {
  auto read = read_task(fmt::format(R"({{"format": 1, "name": "bits", "family": "test", "inputs": [{}],
      "steps": [{}], "outputs": ["y"]}})",
                                    inputs, steps),
                        "cpu");
  if (!read) throw std::runtime_error(steps + ": " + read.error().message);
  return std::move(*read);
}

std::string input(const std::string& name, const char* type, int64_t low, int64_t high) {
  return fmt::format(
      R"({{"name": "{}", "dtype": "{}", "shape": [13, 40], "draw": {{"distribution": "integer", "low": {}, "high": {}}}}})",
      name, type, low, high);
}

std::string step(const std::string& op, const std::string& args) {
  return fmt::format(R"({{"aten": "aten::{}", "args": {{{}}}, "out": ["y"]}})", op, args);
}

class BitKernels : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }

  static void expect_accepted(const task& t, const std::string& of, const std::string& plan = "fuse(steps=0)") {
    judged_task gates(t);
    for (const auto* target : {&for_cpu(), &for_cuda()}) {
      auto made = lower(t, parsed(plan), *target);
      ASSERT_TRUE(made) << of << ": " << made.error().message;
      EXPECT_EQ(gates.problem_of(made->checked.text), "") << of << "\n" << made->checked.text.source;
    }
  }
};

TEST_F(BitKernels, TakeIntegersOfEveryWidth) {
  for (const auto& type : types) {
    const std::string x = input("x", type.name, type.low, type.high), z = input("z", type.name, type.low, type.high);
    for (const char* op : {"bitwise_and", "bitwise_or", "bitwise_xor"}) {
      const std::string of = fmt::format("{} of {}", op, type.name);
      expect_accepted(task_of(x + "," + z, step(std::string(op) + ".Tensor", R"("self": "x", "other": "z")")), of);
      expect_accepted(task_of(x, step(std::string(op) + ".Scalar", R"("self": "x", "other": -16)")), of);
    }
    expect_accepted(task_of(x, step("bitwise_not", R"("self": "x")")), type.name);
  }
}

TEST_F(BitKernels, TakeBools) {
  const auto flags = [](const std::string& name) {
    return fmt::format(R"({{"name": "{}", "dtype": "bool", "shape": [13, 40],
                           "draw": {{"distribution": "bernoulli", "probability": 0.5}}}})",
                       name);
  };
  expect_accepted(task_of(flags("x"), step("bitwise_not", R"("self": "x")")), "not");
  for (const char* op : {"bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"})
    expect_accepted(task_of(flags("x") + "," + flags("z"), step(op, R"("self": "x", "other": "z")")), op);
}

TEST_F(BitKernels, ShiftByWhatCDoesNotDefine) {
  for (const auto& type : types) {
    const bool is_signed = type.low < 0;
    const std::string x = input("x", type.name, type.low, type.high);
    const std::string by = input("z", type.name, is_signed ? -2 : 0, type.width + 3);
    for (const char* op : {"bitwise_left_shift", "bitwise_right_shift"}) {
      const std::string of = fmt::format("{} of {}", op, type.name), by_number = std::string(op) + ".Tensor_Scalar";
      expect_accepted(task_of(x + "," + by, step(std::string(op) + ".Tensor", R"("self": "x", "other": "z")")), of);
      expect_accepted(task_of(by, step(std::string(op) + ".Scalar_Tensor", R"("self": 93, "other": "z")")), of);
      for (const int number : {1, type.width - 1, type.width, type.width + 1, -1})
        if (is_signed || number >= 0)
          expect_accepted(task_of(x, step(by_number, fmt::format(R"("self": "x", "other": {})", number))),
                          fmt::format("{} by {}", of, number));
    }
  }
}

// A narrow integer wraps around at its own width, also where a kernel reads it again.
TEST_F(BitKernels, WrapNarrowIntegersBetweenSteps) {
  for (const auto& type : types) {
    if (type.width > 16) continue;
    const std::string x = input("x", type.name, type.low, type.high), z = input("z", type.name, type.low, type.high);
    const auto then_halved = [](const char* op, const char* more) {
      return fmt::format(R"({{"aten": "aten::{}", "args": {{"self": "x", "other": {}}}, "out": ["t"]}},
          {{"aten": "aten::bitwise_right_shift.Tensor_Scalar", "args": {{"self": "t", "other": 1}}, "out": ["y"]}})",
                         op, more);
    };
    for (const char* op : {"add.Tensor", "mul.Tensor", "sub.Tensor", "bitwise_left_shift.Tensor"})
      expect_accepted(task_of(x + "," + z, then_halved(op, R"("z")")), fmt::format("{} of {}", op, type.name),
                      "fuse(steps=0..1)");
  }
}

// What is converted to a narrower type keeps its lowest bits.
TEST_F(BitKernels, ConvertIntegersToNarrowerOnes) {
  for (const auto& from : types)
    for (const auto& to : types) {
      const std::string steps =
          fmt::format(R"({{"aten": "aten::to.dtype", "args": {{"self": "x", "dtype": "{}"}}, "out": ["t"]}},
          {{"aten": "aten::bitwise_right_shift.Tensor_Scalar", "args": {{"self": "t", "other": 1}}, "out": ["y"]}})",
                      to.name);
      expect_accepted(task_of(input("x", from.name, from.low, from.high), steps),
                      fmt::format("{} to {}", from.name, to.name), "fuse(steps=0..1)");
    }
}

TEST_F(BitKernels, CompileForAGpu) {
  for (const auto& type : types)
    for (const char* op : {"bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor", "bitwise_and.Tensor"}) {
      const task t = task_of(input("x", type.name, type.low, type.high) + "," + input("z", type.name, 0, 20),
                             step(op, R"("self": "x", "other": "z")"));
      for (const char* plan : {"fuse(steps=0)", "fuse(steps=0); items(group=0, elements=4)"}) {
        const auto made = compile(lowered_for_cuda(t, plan).source);
        EXPECT_TRUE(made) << op << " of " << type.name << ": " << made.error().message;
      }
    }
}

// A number of more bits than a double has is not rounded into a kernel.
TEST_F(BitKernels, LeaveNumbersOfMoreThan53BitsToTheLibrary) {
  const task t = task_of(input("x", "int64", -1000, 1000),
                         step("bitwise_and.Scalar", R"("self": "x", "other": 9007199254740993)"));
  EXPECT_THAT(refusal(t, "fuse(steps=0)"), HasSubstr("more than 53 bits"));
}

}  // namespace
}  // namespace cudal1::test
