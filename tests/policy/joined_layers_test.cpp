// Layers of one input as one layer: what reads slices of its result, and the gates accept every program.
#include <algorithm>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/move_registry.hpp"
#include "policy/moves/proof_checks.hpp"
#include "policy/search/assembly.hpp"
#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/known_parts_of_tests.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/network_text.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

constexpr const char* k_attention_tensors =
    R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 6, 24]}],
       "weights": [{"name": "wq", "dtype": "float32", "shape": [24, 24]}, {"name": "bq", "dtype": "float32", "shape": [24]},
                   {"name": "wk", "dtype": "float32", "shape": [24, 24]},
                   {"name": "wv", "dtype": "float32", "shape": [24, 24]}, {"name": "bv", "dtype": "float32", "shape": [24]},
                   {"name": "wo", "dtype": "float32", "shape": [24, 24]}])";
constexpr const char* k_attention =
    R"(q = linear {"input": "x", "weight": "wq", "bias": "bq"}
       qh = view {"self": "q", "size": [2, 6, 3, 8]}
       qt = transpose.int {"self": "qh", "dim0": 1, "dim1": 2}
       k = linear {"input": "x", "weight": "wk"}
       kh = view {"self": "k", "size": [2, 6, 3, 8]}
       kt = transpose.int {"self": "kh", "dim0": 1, "dim1": 2}
       v = linear {"input": "x", "weight": "wv", "bias": "bv"}
       vh = view {"self": "v", "size": [2, 6, 3, 8]}
       vt = transpose.int {"self": "vh", "dim0": 1, "dim1": 2}
       a = scaled_dot_product_attention {"query": "qt", "key": "kt", "value": "vt", "is_causal": true}
       at = transpose.int {"self": "a", "dim0": 1, "dim1": 2}
       r = reshape {"self": "at", "shape": [2, 6, 24]}
       y = linear {"input": "r", "weight": "wo"})";

std::string in_type(std::string text, const std::string& type) {
  for (auto at = text.find("float32"); at != std::string::npos; at = text.find("float32", at + type.size()))
    text.replace(at, 7, type);
  return text;
}

std::vector<network> plain_networks() {
  return {
      {"attention", k_attention_tensors, k_attention, R"(["y"])"},
      {"gated", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [3, 5, 24]}],
             "weights": [{"name": "wg", "dtype": "float32", "shape": [13, 24]}, {"name": "wu", "dtype": "float32", "shape": [13, 24]},
                         {"name": "wd", "dtype": "float32", "shape": [24, 13]}])",
       R"(g = linear {"input": "x", "weight": "wg"}
              s = silu {"self": "g"}
              u = linear {"input": "x", "weight": "wu"}
              m = mul.Tensor {"self": "s", "other": "u"}
              y = linear {"input": "m", "weight": "wd"})",
       R"(["y"])"},
      {"cell",
       R"("inputs": [{"name": "x", "dtype": "float32", "shape": [5, 9]}, {"name": "h", "dtype": "float32", "shape": [5, 7]}],
             "weights": [{"name": "wr", "dtype": "float32", "shape": [9, 7]}, {"name": "wz", "dtype": "float32", "shape": [9, 7]},
                         {"name": "wn", "dtype": "float32", "shape": [9, 7]}, {"name": "bz", "dtype": "float32", "shape": [7]},
                         {"name": "ur", "dtype": "float32", "shape": [7, 7]}, {"name": "uz", "dtype": "float32", "shape": [7, 7]}])",
       R"(xr = mm {"self": "x", "mat2": "wr"}
              hr = matmul {"self": "h", "other": "ur"}
              sr = add.Tensor {"self": "xr", "other": "hr"}
              r = sigmoid {"self": "sr"}
              xz = addmm {"self": "bz", "mat1": "x", "mat2": "wz"}
              hz = matmul {"self": "h", "other": "uz"}
              sz = add.Tensor {"self": "xz", "other": "hz"}
              z = sigmoid {"self": "sz"}
              xn = mm {"self": "x", "mat2": "wn"}
              rn = mul.Tensor {"self": "r", "other": "xn"}
              n = tanh {"self": "rn"}
              d = sub.Tensor {"self": "h", "other": "n"}
              p = mul.Tensor {"self": "z", "other": "d"}
              y = add.Tensor {"self": "n", "other": "p"})",
       R"(["y"])"},
      {"transposed", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [6, 16]}],
             "weights": [{"name": "wa", "dtype": "float32", "shape": [10, 16]}, {"name": "wb", "dtype": "float32", "shape": [6, 16]},
                         {"name": "wc", "dtype": "float32", "shape": [10, 16]}, {"name": "bb", "dtype": "float32", "shape": [6]}])",
       R"(ta = t {"self": "wa"}
              a = mm {"self": "x", "mat2": "ta"}
              tb = permute {"self": "wb", "dims": [1, 0]}
              b = addmm {"self": "bb", "mat1": "x", "mat2": "tb"}
              c = linear {"input": "x", "weight": "wc"}
              s = softmax.int {"self": "a", "dim": 1}
              e = mul.Tensor {"self": "s", "other": "c"}
              i = sum.dim_IntList {"self": "e", "dim": [1], "keepdim": true}
              y = mul.Tensor {"self": "b", "other": "i"})",
       R"(["y"])"},
      {"scores",
       R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 5, 12]}, {"name": "z", "dtype": "float32", "shape": [2, 7, 12]}],
             "weights": [{"name": "wq", "dtype": "float32", "shape": [8, 12]}, {"name": "wk", "dtype": "float32", "shape": [8, 12]},
                         {"name": "wv", "dtype": "float32", "shape": [11, 12]}])",
       R"(q = linear {"input": "x", "weight": "wq"}
              k = linear {"input": "z", "weight": "wk"}
              v = linear {"input": "z", "weight": "wv"}
              kt = transpose.int {"self": "k", "dim0": -2, "dim1": -1}
              s = matmul {"self": "q", "other": "kt"}
              d = div.Scalar {"self": "s", "other": 2.5}
              p = softmax.int {"self": "d", "dim": -1}
              y = matmul {"self": "p", "other": "v"})",
       R"(["y"])"},
      {"experts", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [7, 16]}],
             "weights": [{"name": "r", "dtype": "float32", "shape": [3, 16]}, {"name": "rb", "dtype": "float32", "shape": [3]},
                         {"name": "a", "dtype": "float32", "shape": [20, 16]}, {"name": "ab", "dtype": "float32", "shape": [20]},
                         {"name": "b", "dtype": "float32", "shape": [20, 16]}, {"name": "c", "dtype": "float32", "shape": [20, 16]},
                         {"name": "d", "dtype": "float32", "shape": [16, 20]}])",
       R"(l = linear {"input": "x", "weight": "r", "bias": "rb"}
              p = softmax.int {"self": "l", "dim": -1}
              ha = linear {"input": "x", "weight": "a", "bias": "ab"}
              ga = gelu {"self": "ha"}
              hb = linear {"input": "x", "weight": "b"}
              gb = gelu {"self": "hb"}
              hc = linear {"input": "x", "weight": "c"}
              pa pb pc = split.Tensor {"self": "p", "split_size": 1, "dim": 1}
              ya = mul.Tensor {"self": "ga", "other": "pa"}
              yb = mul.Tensor {"self": "gb", "other": "pb"}
              yc = mul.Tensor {"self": "hc", "other": "pc"}
              s = add.Tensor {"self": "ya", "other": "yb"}
              t = add.Tensor {"self": "s", "other": "yc"}
              y = linear {"input": "t", "weight": "d"})",
       R"(["y"])"},
      {"two_heads", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [9, 20]}],
             "weights": [{"name": "m", "dtype": "float32", "shape": [6, 20]}, {"name": "mb", "dtype": "float32", "shape": [6]},
                         {"name": "v", "dtype": "float32", "shape": [6, 20]}, {"name": "d", "dtype": "float32", "shape": [20, 6]},
                         {"name": "db", "dtype": "float32", "shape": [20]}])",
       R"(a = linear {"input": "x", "weight": "m", "bias": "mb"}
              b = linear {"input": "x", "weight": "v"}
              o = linear {"input": "a", "weight": "d", "bias": "db"}
              n = layer_norm {"input": "b", "normalized_shape": [6]}
              y = linear {"input": "n", "weight": "d"}
              z = add.Tensor {"self": "y", "other": "o"})",
       R"(["z"])"},
      {"vector", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [12]}],
             "weights": [{"name": "a", "dtype": "float32", "shape": [12, 5]}, {"name": "b", "dtype": "float32", "shape": [12, 5]}])",
       R"(l = matmul {"self": "x", "other": "a"}
              r = matmul {"self": "x", "other": "b"}
              s = sigmoid {"self": "l"}
              y = mul.Tensor {"self": "s", "other": "r"})",
       R"(["y"])"},
      {"block", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [1, 9, 32]}],
             "weights": [{"name": "g", "dtype": "float32", "shape": [32]}, {"name": "wq", "dtype": "float32", "shape": [32, 32]},
                         {"name": "wk", "dtype": "float32", "shape": [16, 32]}, {"name": "wv", "dtype": "float32", "shape": [16, 32]},
                         {"name": "gq", "dtype": "float32", "shape": [8]}, {"name": "wo", "dtype": "float32", "shape": [32, 32]},
                         {"name": "wg", "dtype": "float32", "shape": [40, 32]}, {"name": "wu", "dtype": "float32", "shape": [40, 32]},
                         {"name": "wd", "dtype": "float32", "shape": [32, 40]}])",
       R"(n = rms_norm {"input": "x", "normalized_shape": [32], "weight": "g", "eps": 0.00001}
              q = linear {"input": "n", "weight": "wq"}
              k = linear {"input": "n", "weight": "wk"}
              v = linear {"input": "n", "weight": "wv"}
              qh = view {"self": "q", "size": [1, 9, 4, 8]}
              qn = rms_norm {"input": "qh", "normalized_shape": [8], "weight": "gq", "eps": 0.00001}
              qt = transpose.int {"self": "qn", "dim0": 1, "dim1": 2}
              kh = view {"self": "k", "size": [1, 9, 2, 8]}
              kt = transpose.int {"self": "kh", "dim0": 1, "dim1": 2}
              vh = view {"self": "v", "size": [1, 9, 2, 8]}
              vt = transpose.int {"self": "vh", "dim0": 1, "dim1": 2}
              a = scaled_dot_product_attention {"query": "qt", "key": "kt", "value": "vt", "is_causal": true, "enable_gqa": true}
              at = transpose.int {"self": "a", "dim0": 1, "dim1": 2}
              r = reshape {"self": "at", "shape": [1, 9, 32]}
              o = linear {"input": "r", "weight": "wo"}
              h = add.Tensor {"self": "x", "other": "o"}
              e = linear {"input": "h", "weight": "wg"}
              s = silu {"self": "e"}
              u = linear {"input": "h", "weight": "wu"}
              m = mul.Tensor {"self": "s", "other": "u"}
              d = linear {"input": "m", "weight": "wd"}
              y = add.Tensor {"self": "h", "other": "d"})",
       R"(["y"])"}};
}

const std::vector<task>& joined_networks() {
  static const std::vector<task> all = [] {
    std::vector<task> out;
    for (const auto& each : plain_networks())
      out.push_back(task_of(each));
    for (const char* type : {"bfloat16", "float16"}) {
      const std::string tensors = in_type(k_attention_tensors, type), name = std::string("attention_") + type;
      out.push_back(task_of({name.c_str(), tensors.c_str(), k_attention, R"(["y"])"}));
    }
    return out;
  }();
  return all;
}

const task& network_named(const std::string& name) {
  return *std::ranges::find(joined_networks(), name, &task::name);
}

bool joins(const schedule& s) {
  return std::ranges::count(s.moves, "join_layers", &move::name) > 0;
}

// All whole schedules with joined layers, and each way to join some alone.
std::vector<schedule> joined(const task& t, const lowering_target& target) {
  auto out = whole_schedules(t, target);
  std::erase_if(out, [](const schedule& s) { return !joins(s) || rounds_to_tf32(s); });
  for (auto& m : find_move("join_layers")->candidates(graph(t), target))
    out.push_back({{m}});
  return out;
}

class join_layers : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
  const lowering_target& target() const { return target_named(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(all, join_layers, testing::Values("cpu", "cuda"));

TEST_P(join_layers, is_accepted_by_the_gates) {
  proof_checks proofs;
  for (const auto& t : joined_networks()) {
    judged_task judged(t);
    const auto schedules = joined(t, target());
    EXPECT_GE(schedules.size(), 2U) << t.name;
    for (const auto& s : schedules) {
      auto made = lower(t, s, target());
      ASSERT_TRUE(made) << t.name << ": " << print_schedule(s) << ": " << made.error().message;
      const auto checked = proofs.of(t, s, target(), made->certificates);
      EXPECT_GE(checked.size(), 2U) << "the slices";
      for (const auto& step : checked) {
        // A template's kernel has no proof: the gates below judge it.
        if (step.why.find("cudal1::kernel_template has no definition") != std::string::npos) continue;
        EXPECT_EQ(step.found, proof_finding::holds) << t.name << ": " << print_schedule(s) << ": " << step.why;
      }
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ": " << print_schedule(s);
    }
  }
}

TEST_P(join_layers, has_parts_that_the_gates_accept) {
  for (const auto& t : joined_networks()) {
    const auto layouts = partitions_by_layout(t, target());
    ASSERT_EQ(layouts.size(), 2U) << t.name;
    EXPECT_TRUE(joins(layouts.back().proofs)) << t.name;
    for (const task* part : distinct_tasks(layouts.back())) {
      EXPECT_FALSE(offers(*part, "join_layers")) << part->name;
      const auto whole = whole_schedules(*part, target());
      if (whole.empty()) continue;
      judged_task judged(*part);
      auto made = lower(*part, whole.front(), target());
      ASSERT_TRUE(made) << part->name << ": " << made.error().message;
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ", " << part->name;
    }
  }
}

TEST_P(join_layers, is_assembled_from_its_parts) {
  for (const auto& t : joined_networks()) {
    const auto layouts = partitions_by_layout(t, target());
    judged_task judged(t);
    const auto schedules = assemble(t, target(), layouts.back(), all_known(layouts.back(), target()));
    ASSERT_FALSE(schedules.empty()) << t.name;
    for (const auto& s : schedules) {
      EXPECT_TRUE(joins(s.plan));
      EXPECT_EQ(s.left_out, 0) << t.name << ": " << print_schedule(s.plan);
      auto made = lower(t, s.plan, target());
      ASSERT_TRUE(made) << t.name << ": " << made.error().message;
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ": " << print_schedule(s.plan);
    }
  }
}

TEST_P(join_layers, is_in_some_whole_schedules_and_not_in_others) {
  for (const auto& t : joined_networks()) {
    const auto whole = whole_schedules(t, target());
    const auto with = std::ranges::count_if(whole, joins);
    EXPECT_GE(with, 1) << t.name;
    // Where no other move applies, the one without it is the task's own program.
    EXPECT_EQ(joins(whole.front()), with == std::ssize(whole)) << t.name;
  }
}

TEST(JoinLayers, KernelsReadBothSlicesOfOneProduct) {
  const auto& t = network_named("gated");
  const program made = lowered_for_cuda(t, "join_layers(steps=0+2); fuse(steps=2+4)");
  EXPECT_EQ(calls_of(made), "linear narrow narrow linear ");
  EXPECT_THAT(made.source, HasSubstr("silu, mul"));
  const program by_kernel = lowered_for_cuda(t, "join_layers(steps=0+2); fuse(steps=2+4); product_kernel(steps=0)");
  EXPECT_EQ(calls_of(by_kernel), "narrow narrow linear ");
}

TEST(JoinLayers, OtherImplementationsApplyToTheJoinedLayer) {
  const auto& t = network_named("attention_bfloat16");
  for (const char* further : {"product_kernel(steps=0)", "graph()"})
    EXPECT_NO_THROW(lowered_for_cuda(t, std::string("join_layers(steps=0+3+6); ") + further)) << further;
  EXPECT_NO_THROW(lowered_for_cuda(network_named("gated"), "join_layers(steps=0+2); precision(step=0, as=tf32x3)"));
  for (const auto& each : joined_networks())
    for (const auto& s : joined(each, for_cuda())) {
      const program made = lowered_for_cuda(each, print_schedule(s));
      if (made.source.empty()) continue;
      const auto compiled = compile(made.source);
      EXPECT_TRUE(compiled) << each.name << ": " << compiled.error().message;
    }
}

}  // namespace
}  // namespace cudal1::test
