#include "policy/search/why_no_moves.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

// relu(x) * x, and a copy that no kernel makes.
task product_with_itself(const std::string& type) {
  const std::string x = R"({"name": "x", "dtype": ")" + type + R"(", "shape": [64, 64]})";
  auto t = read_task(R"({"format": 1, "name": "t", "summary": "s", "family": "pointwise", "inputs": [)" + x + R"(],
    "steps": [{"aten": "aten::relu", "args": {"self": "x"}, "out": ["r"]},
              {"aten": "aten::mul.Tensor", "args": {"self": "r", "other": "x"}, "out": ["p"]},
              {"aten": "aten::mm", "args": {"self": "p", "mat2": "x"}, "out": ["y"]}],
    "outputs": ["y"]})",
                     "cuda");
  EXPECT_TRUE(t) << t.error().message;
  return *t;
}

TEST(WhyNoMoves, IsEmptyWhereAMoveMakesAKernel) {
  EXPECT_EQ(why_no_moves(product_with_itself("float32"), for_cpu()), "");
  EXPECT_EQ(why_no_moves(product_with_itself("float32"), for_cuda()), "");
  EXPECT_EQ(why_no_moves(product_with_itself("bfloat16"), for_cuda()), "");
}

TEST(WhyNoMoves, SaysWhatKernelsCannotDo) {
  EXPECT_EQ(why_no_moves(product_with_itself("float64"), for_cpu()),
            "no move applies: aten::mm on float64 stays a library call (1 step), aten::mul.Tensor on float64 stays a "
            "library call (1 step), aten::relu on float64 stays a library call (1 step)");
  EXPECT_THAT(why_no_moves(product_with_itself("float64"), for_cuda()),
              testing::HasSubstr("aten::relu on float64 stays a library call"))
      << "that the program could be a graph changes no kernel";
}

}  // namespace
}  // namespace cudal1::test
