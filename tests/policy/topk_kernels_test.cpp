// The greatest elements of rows as kernels of a template: the gates accept them, for rows of every length, with equal
// elements and many divisions of the work; and they compile for a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/move_registry.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/product_cases.hpp"

namespace cudal1::test {
namespace {

product_case topk(const std::string& name, const std::string& shape, int64_t k, const std::string& values = "",
                  bool largest = true, const std::string& type = "float32") {
  return {name,
          made(name, tensor("x", shape, type), "",
               fmt::format(
                   R"({{"aten": "aten::topk", "args": {{"self": "x", "k": {}, "largest": {}}}, "out": ["v", "i"]}})", k,
                   largest),
               R"("v", "i")"),
          "template(step=0, kernel=row_topk" + values + ")"};
}

std::vector<product_case> cases() {
  std::vector<product_case> out;
  out.push_back(topk("one", "5, 40", 1));
  out.push_back(topk("all_of_short_rows", "9, 8", 8));
  out.push_back(topk("odd_rows", "7, 131", 5));
  out.push_back(topk("of_vectors", "6, 256", 8));
  out.push_back(topk("a_whole_warp", "3, 100", 32));
  out.push_back(topk("more_than_a_warp", "3, 150", 33));
  out.push_back(topk("most", "2, 700", 64));
  out.push_back(topk("one_row", "333", 7));
  out.push_back(topk("three_dimensions", "2, 3, 64", 4));
  out.push_back(topk("smallest", "5, 200", 6, "", false));
  out.push_back(topk("several_warps", "2, 4100", 50));
  for (const int warps : {1, 2, 4, 8, 16, 32})
    out.push_back(topk(fmt::format("warps_{}", warps), "2, 1031", 40, fmt::format(", warps={}", warps)));
  for (const int vectors : {1, 2, 4, 8})
    out.push_back(topk(fmt::format("vectors_{}", vectors), "3, 1032", 9, fmt::format(", vectors={}", vectors)));
  out.push_back(topk("both", "3, 2048", 12, ", warps=4, vectors=2"));
  for (const char* type : {"float16", "bfloat16"}) {
    out.push_back(topk(fmt::format("of_{}", type), "4, 328", 10, "", true, type));
    out.push_back(topk(fmt::format("odd_of_{}", type), "3, 77", 10, "", false, type));
    out.push_back(topk(fmt::format("most_vectors_of_{}", type), "2, 2048", 10, ", vectors=4", true, type));
  }
  return out;
}

TEST(TopkKernels, AreAcceptedByTheGates) {
  expect_accepted(cases());
}

TEST(TopkKernels, CompileForAnH100) {
  expect_compiled(cases());
}

TEST(TopkKernels, AreOfferedWhereTheyFit) {
  const auto offered = [](const product_case& c) { return offers(c.what, "template", for_cuda()); };
  EXPECT_TRUE(offered(topk("fits", "4, 100", 10)));
  EXPECT_FALSE(offers(topk("cpu", "4, 100", 10).what, "template", for_cpu()));
  EXPECT_FALSE(offered(topk("too_many", "4, 100", 65)));
  EXPECT_FALSE(offered(topk("float64", "4, 100", 3, "", true, "float64")));
  EXPECT_THAT(
      refusal_of(topk("x", "4, 100", 3).what, "template(step=0, kernel=column_topk)"),
      HasSubstr("there is no kernel template \"column_topk\"; there are attention, recurrent_layers, row_topk"));
  EXPECT_THAT(refusal_of(topk("x", "4, 100", 3).what, "template(step=0, kernel=row_topk, warps=3)"),
              HasSubstr("warps=3 is not one of 1, 2, 4, 8, 16, 32"));
  EXPECT_THAT(refusal_of(topk("x", "4, 100", 3).what, "template(step=0, kernel=row_topk, warps=32)"),
              HasSubstr("32 warps would share rows of 100 elements"));
  EXPECT_THAT(
      refusal_of(topk("x", "4, 2048", 3, "", true, "float16").what, "template(step=0, kernel=row_topk, vectors=8)"),
      HasSubstr("8 vectors of 8 elements are more than 32"));
}

// Repeated steps of a network have one kernel.
TEST(TopkKernels, ThatAreEqualAreOne) {
  const auto one = made("two", tensor("x", "4, 100") + ", " + tensor("y", "4, 100"), "",
                        R"({"aten": "aten::topk", "args": {"self": "x", "k": 3}, "out": ["v", "i"]},
                           {"aten": "aten::topk", "args": {"self": "y", "k": 3}, "out": ["w", ""]})",
                        R"("v", "i", "w")");
  const auto p = lowered_for_cuda(one, "template(step=0, kernel=row_topk); template(step=1, kernel=row_topk)");
  EXPECT_EQ(launch_of(p, 0).kernel, launch_of(p, 1).kernel);
  EXPECT_EQ(p.source.find("__global__"), p.source.rfind("__global__"));
}

}  // namespace
}  // namespace cudal1::test
