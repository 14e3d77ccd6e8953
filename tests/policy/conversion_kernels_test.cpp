// Conversions to narrower types as kernels: what they round is rounded, also where no memory has the narrow type.
#include <map>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/judged_task.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// x.to(there).to(float32) + 1.
task there_and_back(const std::string& from, const std::string& there) {
  const std::string draw =
      from == "float32" ? "" : R"(, "draw": {"distribution": "integer", "low": -9000, "high": 9000})";
  auto read = read_task(fmt::format(R"({{"format": 1, "name": "there_and_back", "family": "test",
      "inputs": [{{"name": "x", "dtype": "{}", "shape": [13, 40]{}}}],
      "steps": [{{"aten": "aten::to.dtype", "args": {{"self": "x", "dtype": "{}"}}, "out": ["n"]}},
                {{"aten": "aten::to.dtype", "args": {{"self": "n", "dtype": "float32"}}, "out": ["w"]}},
                {{"aten": "aten::add.Scalar", "args": {{"self": "w", "other": 1}}, "out": ["y"]}}],
      "outputs": ["y"]}})",
                                    from, draw, there),
                        "cpu");
  if (!read) throw std::runtime_error(read.error().message);
  return std::move(*read);
}

TEST(conversion_kernels, round_to_half_types_there_and_back) {
  use_judging_arena();
  const std::map<std::string, std::string> types = {{"float16", "half_of_float"}, {"bfloat16", "bfloat16_of_float"}};
  for (const char* from : {"float32", "int32"})
    for (const auto& [there, function] : types) {
      const task t = there_and_back(from, there);
      judged_task gates(t);
      for (const auto* target : {&for_cpu(), &for_cuda()}) {
        auto made = lower(t, parsed("fuse(steps=0..2)"), *target);
        ASSERT_TRUE(made) << made.error().message;
        EXPECT_THAT(made->checked.text.source, HasSubstr(function)) << from;
        EXPECT_EQ(gates.problem_of(made->checked.text), "") << made->checked.text.source;
      }
    }
}

TEST(conversion_kernels, do_not_round_what_a_half_type_holds) {
  const task t = there_and_back("float32", "float32");
  auto made = lower(t, parsed("fuse(steps=0..2)"), for_cuda());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->checked.text.source, Not(HasSubstr("_of_float")));
}

}  // namespace
}  // namespace cudal1::test
