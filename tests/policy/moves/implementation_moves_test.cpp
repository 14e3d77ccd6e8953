// Other implementations of library steps.
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

TEST(CudaMoves, AProductBecomesThreeTf32ProductsWithItsWeightSplitOnce) {
  const task& t = builtin("linear_gelu");
  EXPECT_TRUE(offers(t, "precision", for_cuda()));
  EXPECT_FALSE(offers(t, "precision", for_cpu()));
  EXPECT_THAT(refusal(t, "precision(step=0, as=tf32x3)"), HasSubstr("CUDA devices only"));
  const program p = lowered_for_cuda(t, "precision(step=0, as=tf32x3); fuse(steps=1); in_place(group=0)");
  int products = 0, biased = 0;
  for (const auto& s : p.steps) {
    const auto* call = std::get_if<aten_step>(&s);
    if (call == nullptr) continue;
    EXPECT_EQ(call->precision, "tf32");
    ++products;
    biased += std::any_of(call->args.begin(), call->args.end(), [](const auto& a) { return a.first == "bias"; });
  }
  EXPECT_EQ(products, 3);
  EXPECT_EQ(biased, 1);
  EXPECT_EQ(std::count_if(p.setup.begin(), p.setup.end(),
                          [](const cudal1::step& s) { return std::holds_alternative<launch_step>(s); }),
            1);
  EXPECT_FALSE(lower(t, parsed("precision(step=0, as=tf32x3); precision(step=0, as=tf32x3)"), for_cuda()));
  EXPECT_FALSE(lower(t, parsed("precision(step=1, as=tf32x3)"), for_cuda()));
  EXPECT_FALSE(lower(t, parsed("precision(step=0, as=bfloat16)"), for_cuda()));
  const task& diagonal = builtin("diagonal_matmul");
  EXPECT_FALSE(lower(diagonal, parsed("precision(step=0, as=tf32x3); diagonal_matmul(step=0)"), for_cuda()));
  EXPECT_FALSE(lower(diagonal, parsed("diagonal_matmul(step=0); precision(step=0, as=tf32x3)"), for_cuda()));
}

TEST(CudaMoves, AProductMayBeOneInTf32WithItsBias) {
  const program p = lowered_for_cuda(builtin("linear_gelu"), "precision(step=0, as=tf32)");
  const auto* const call = std::get_if<aten_step>(&p.steps.front());
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->op, "aten::linear");
  EXPECT_EQ(call->precision, "tf32");
  EXPECT_EQ(std::ranges::count_if(p.setup, [](const auto&) { return true; }), 0);
  EXPECT_TRUE(check_program(p));
}

// 131,072 products near one in one sum of a tensor core are off by 2.6e-5.
TEST(CudaMoves, LongProductsAreMadeOfPieces) {
  const auto pieces_of = [](int64_t k, const char* op) {
    const bool linear = std::string_view(op) == "aten::linear";
    const auto tensor = [](const char* name, int64_t rows, int64_t columns) {
      return fmt::format(R"({{"name":"{}","dtype":"float32","shape":[{},{}]}})", name, rows, columns);
    };
    const auto read =
        read_task(fmt::format(R"({{"format":1,"name":"long","inputs":[{},{}],)"
                              R"("steps":[{{"aten":"{}","args":{{"{}":"x","{}":"w"}},"out":["y"]}}],"outputs":["y"]}})",
                              tensor("x", 16, k), linear ? tensor("w", 24, k) : tensor("w", k, 24), op,
                              linear ? "input" : "self", linear ? "weight" : "mat2"),
                  "cuda");
    if (!read) throw std::runtime_error(read.error().message);
    const task& t = *read;
    const program p = lowered_for_cuda(t, "precision(step=0, as=tf32x3)");
    const auto checked = check_program(p);
    EXPECT_TRUE(checked) << checked.error().message;
    std::vector<int64_t> pieces;
    for (const auto& s : p.steps)
      if (const auto* call = std::get_if<aten_step>(&s); call != nullptr && call->precision == "tf32")
        pieces.push_back(call->op == "aten::bmm" ? checked->types.at(call->results[0]).shape[0] : 1);
    return pieces;
  };
  EXPECT_THAT(pieces_of(131072, "aten::mm"), testing::ElementsAre(256, 256, 256));
  EXPECT_THAT(pieces_of(131072, "aten::linear"), testing::ElementsAre(256, 256, 256));
  EXPECT_THAT(pieces_of(9000, "aten::mm"), testing::ElementsAre(18, 18, 18));
  EXPECT_THAT(pieces_of(8192, "aten::mm"), testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(pieces_of(8209, "aten::mm"), testing::ElementsAre(1, 1, 1)) << "a prime";
}

TEST(Moves, TheIndexOfAnExtremumIsARowKernel) {
  const auto searching = [](const std::string& op, const std::string& type, const std::string& more) {
    auto read = read_task(R"({"format": 1, "name": "index", "inputs": [{"name": "x", "dtype": ")" + type +
                              R"(", "shape": [16, 256, 256]}], "steps": [{"aten": "aten::)" + op +
                              R"(", "args": {"self": "x")" + more + R"(}, "out": ["y"]}], "outputs": ["y"]})",
                          "cpu");
    if (!read) throw std::runtime_error(read.error().message);
    return *read;
  };
  const program p = lowered_for_cuda(searching("argmax", "float32", R"(, "dim": 1)"), "extremum_index(step=0)");
  EXPECT_EQ(std::get<aten_step>(p.setup.front()).op, "aten::arange");
  EXPECT_EQ(p.steps.size(), 2u) << "the kernel and its result";
  EXPECT_EQ(refusal(searching("argmin", "float16", R"(, "dim": -1)"), "extremum_index(step=0)"), "accepted");
  EXPECT_THAT(refusal(searching("argmax", "float64", R"(, "dim": 1)"), "extremum_index(step=0)"),
              HasSubstr("aten::argmax of float64 stays a library call"));
  EXPECT_THAT(refusal(searching("amax", "float32", R"(, "dim": [1])"), "extremum_index(step=0)"),
              HasSubstr("neither argmax nor argmin"));
}

}  // namespace
}  // namespace cudal1::test
