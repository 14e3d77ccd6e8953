// Convolutions with what follows as one call of cuDNN's graph API: the gates accept what the move makes, by what the
// operator means; the proof check finds a chain that is another one; and what is not the same is refused.
#include "policy/internal_operators/convolution_graph.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/move_registry.hpp"
#include "policy/moves/proof_checks.hpp"
#include "policy/search/doubtful_moves.hpp"
#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/network_text.hpp"

namespace cudal1::test {
namespace {

std::string with_type(std::string text, const std::string& type) {
  for (auto at = text.find("TYPE"); at != std::string::npos; at = text.find("TYPE", at + type.size()))
    text.replace(at, 4, type);
  return text;
}

constexpr const char* k_images =
    R"("inputs": [{"name": "x", "dtype": "TYPE", "shape": [2, 8, 9, 7]}, {"name": "g", "dtype": "TYPE", "shape": [2, 8, 9, 7]}],
       "weights": [{"name": "w", "dtype": "TYPE", "shape": [8, 8, 3, 3]}, {"name": "b", "dtype": "TYPE", "shape": [8]},
                   {"name": "v", "dtype": "TYPE", "shape": [8, 1, 1]}, {"name": "m", "dtype": "TYPE", "shape": [8]},
                   {"name": "s", "dtype": "TYPE", "shape": [8], "draw": {"distribution": "uniform", "low": 0.5, "high": 2}}])";
constexpr const char* k_volumes =
    R"("inputs": [{"name": "x", "dtype": "TYPE", "shape": [2, 8, 3, 5, 4]}],
       "weights": [{"name": "w", "dtype": "TYPE", "shape": [8, 4, 2, 3, 1]}, {"name": "b", "dtype": "TYPE", "shape": [4]}])";

task images(const char* name, const char* steps, const char* type = "float32", const char* outputs = R"(["y"])") {
  return task_of({name, with_type(k_images, type).c_str(), steps, outputs});
}

constexpr const char* k_silu = R"(c = conv2d {"input": "x", "weight": "w", "bias": "b", "padding": 1}
                                  i = sigmoid {"self": "c"}
                                  y = mul.Tensor {"self": "c", "other": "i"})";
constexpr const char* k_gate = R"(c = conv2d {"input": "x", "weight": "w", "padding": 1, "dilation": 1}
                                  a = add.Tensor {"self": "v", "other": "c"}
                                  h = hardtanh {"self": "a", "min_val": -0.5, "max_val": 2}
                                  k = mul.Tensor {"self": "h", "other": "g"}
                                  y = div.Scalar {"self": "k", "other": 4})";
constexpr const char* k_norm = R"(c = conv2d {"input": "x", "weight": "w", "padding": 1}
    n = batch_norm {"input": "c", "weight": "b", "bias": "m", "running_mean": "m", "running_var": "s", "training": false, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
    a = add.Tensor {"self": "n", "other": "x"}
    y = leaky_relu {"self": "a", "negative_slope": 0.1})";
constexpr const char* k_relu = R"(c = conv2d {"input": "x", "weight": "w", "bias": "b", "stride": [2, 1], "padding": 1}
                                  y = relu {"self": "c"})";
constexpr const char* k_functions = R"(c = conv2d {"input": "x", "weight": "w"}
                                       d = gelu {"self": "c", "approximate": "tanh"}
                                       e = sub.Scalar {"self": "d", "other": 0.25}
                                       f = elu {"self": "e", "alpha": 0.5}
                                       h = neg {"self": "f"}
                                       i = softplus {"self": "h"}
                                       j = hardswish {"self": "i"}
                                       y = clamp {"self": "j", "max": 0.75})";
constexpr const char* k_transposed =
    R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2, "padding": 1, "output_padding": [1, 0]}
                                        d = mish {"self": "c"}
                                        y = tanh {"self": "d"})";
constexpr const char* k_volume =
    R"(c = conv_transpose3d.input {"input": "x", "weight": "w", "bias": "b", "padding": [1, 0, 0]}
                                    d = relu6 {"self": "c"}
                                    y = gelu {"self": "d"})";

std::vector<task> tasks() {
  std::vector<task> out;
  for (const char* type : {"float32", "float16", "bfloat16"}) {
    out.push_back(images("silu", k_silu, type));
    out.push_back(images("gate", k_gate, type));
    out.push_back(images("relu", k_relu, type));
    out.push_back(images("functions", k_functions, type));
    out.push_back(images("transposed", k_transposed, type));
    if (type != std::string("float16")) out.push_back(images("norm", k_norm, type));
    out.push_back(task_of({"volume", with_type(k_volumes, type).c_str(), k_volume, R"(["y"])"}));
  }
  return out;
}

bool has_it(const schedule& s) {
  return std::ranges::count(s.moves, "convolution_graph", &move::name) > 0;
}

// "add(0) silu": the chain of the program's one call.
std::string chain_of(const program& p) {
  for (const auto& s : p.steps)
    if (const auto* call = std::get_if<aten_step>(&s); call != nullptr && call->op == "cudal1::convolution_graph")
      for (const auto& [name, value] : call->args)
        if (name == "graph") return std::string(value.as_string());
  return "none";
}

std::string chain_of(const task& t, const char* moves) {
  return chain_of(lowered_for_cuda(t, moves));
}

class ConvolutionGraph : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
};

TEST_F(ConvolutionGraph, IsAcceptedByTheGates) {
  for (const auto& t : tasks()) {
    auto schedules = whole_schedules(t, for_cuda());
    std::erase_if(schedules, [](const schedule& s) { return !has_it(s); });
    EXPECT_FALSE(schedules.empty()) << t.name;
    judged_task judged(t);
    proof_checks proofs;
    for (const auto& s : schedules) {
      auto made = lower(t, s, for_cuda());
      ASSERT_TRUE(made) << t.name << ": " << print_schedule(s) << ": " << made.error().message;
      EXPECT_NE(chain_of(made->checked.text), "none") << print_schedule(s);
      EXPECT_TRUE(refuse_wrong_proofs(proofs.of(t, s, for_cuda(), made->certificates))) << print_schedule(s);
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ": " << print_schedule(s);
    }
  }
}

TEST_F(ConvolutionGraph, SaysWhatTheStepsDo) {
  const char* last = "channels_last(steps=0); ";
  const auto after = [&](const task& t, const char* move) { return chain_of(t, (std::string(last) + move).c_str()); };
  EXPECT_EQ(after(images("silu", k_silu), "convolution_graph(step=4, engine=2)"), "add(0) silu");
  EXPECT_EQ(after(images("functions", k_functions), "convolution_graph(step=9, engine=0)"),
            "gelu_tanh shift(-0.25) elu(0.5) scale(-1) softplus hardswish clamp(-inf,0.75)");
  EXPECT_EQ(after(images("functions", k_functions), "convolution_graph(step=4, engine=0)"), "gelu_tanh shift(-0.25)");
  EXPECT_EQ(after(images("transposed", k_transposed), "convolution_graph(step=4, engine=0)"), "add(0) mish tanh");
  EXPECT_EQ(chain_of(images("relu", k_relu), "fuse(steps=1); convolution_graph(step=1, engine=3)"), "add(0) relu");
}

// Each engine of the longest chain, and the first of shorter ones, which whole schedules do not take.
TEST_F(ConvolutionGraph, IsOfferedForEachEngine) {
  const task t = images("functions", k_functions);
  graph g(t);
  ASSERT_TRUE(apply_move(g, parsed("channels_last(steps=0)").moves[0], for_cuda()));
  std::string all;
  for (const auto& m : find_move("convolution_graph")->candidates(g, for_cuda()))
    all += print_schedule({{m}}) + "\n";
  EXPECT_THAT(all, testing::StartsWith("convolution_graph(step=9, engine=0)\nconvolution_graph(step=9, engine=1)\n"
                                       "convolution_graph(step=9, engine=2)\nconvolution_graph(step=9, engine=3)\n"
                                       "convolution_graph(step=8, engine=0)\n"));
  EXPECT_EQ(std::ranges::count(all, '\n'), 10);
  EXPECT_TRUE(find_move("convolution_graph")->candidates(g, for_cpu()).empty());
  const auto& turing = for_cuda().limited_to("compute capability 7.5, 15102 MiB");
  EXPECT_TRUE(find_move("convolution_graph")->candidates(g, turing).empty());
}

TEST_F(ConvolutionGraph, IsRefusedWhereItIsNotTheSame) {
  const auto why = [](const task& t, const char* moves) {
    const auto made = lower(t, parsed(moves), for_cuda());
    return made ? "accepted" : made.error().message;
  };
  EXPECT_THAT(why(images("output", k_relu, "float32", R"(["y", "c"])"), "convolution_graph(step=1, engine=0)"),
              HasSubstr("something else reads"));
  EXPECT_THAT(why(images("twice", R"(c = conv2d {"input": "x", "weight": "w", "padding": 1}
                                     y = mul.Tensor {"self": "c", "other": "c"})"),
                  "convolution_graph(step=1, engine=0)"),
              HasSubstr("no elementwise function of the chain"));
  EXPECT_THAT(why(images("scaled", R"(c = conv2d {"input": "x", "weight": "w", "padding": 1}
                                      y = add.Tensor {"self": "c", "other": "g", "alpha": 2})"),
                  "convolution_graph(step=1, engine=0)"),
              HasSubstr("no elementwise function of the chain"));
  EXPECT_THAT(why(images("order", k_gate), "convolution_graph(step=4, engine=0)"), HasSubstr("cuDNN has no engine"));
  EXPECT_THAT(why(images("transposed", k_transposed), "convolution_graph(step=2, engine=0)"),
              HasSubstr("not the last dimension"));
  EXPECT_THAT(why(images("engine", k_relu), "convolution_graph(step=1, engine=4)"), HasSubstr("0 to 3"));
  EXPECT_THAT(why(images("alone", k_relu), "convolution_graph(step=0, engine=0)"), HasSubstr("nothing follows"));
  EXPECT_THAT(refusal(images("cpu", k_relu), "convolution_graph(step=1, engine=0)"), HasSubstr("only cuDNN"));
}

// The same operands and another chain, or another engine's number, which is no difference.
TEST_F(ConvolutionGraph, IsRefutedWhereTheChainIsAnother) {
  const task t = images("relu", k_relu);
  const auto refused = [&](const std::string& function) {
    graph g(t);
    auto of = operands_of_convolution_graph(g, g.step_at(1));
    if (!of) throw std::runtime_error(of.error().message);
    of->links[0].function = function;
    g.rewrite(1, {.by = convolution_graph(g, *of, "w", "b", 2), .certificate = "the same", .left_out = {0}});
    return !refuse_wrong_proofs(check_proofs(g));
  };
  EXPECT_FALSE(refused("relu"));
  EXPECT_TRUE(refused("leaky_relu(0.01)"));
  EXPECT_TRUE(refused("gelu"));
}

// A variant that failed for want of an engine says which move need not be tried again.
TEST_F(ConvolutionGraph, IsDoubtfulWhereTheEngineIsMissing) {
  const auto failed = [](const char* moves, const char* reason) {
    exemplar e;
    e.plan = parsed(moves);
    e.known.result.result = outcome::invalid;
    e.known.result.reason = reason;
    return e;
  };
  prompt p;
  p.failed = {failed("channels_last(steps=0); convolution_graph(step=4, engine=3); graph()",
                     "step 3 (cudal1::convolution_graph): cuDNN 9.19.0 has no engine 3 for this graph: there are 2"),
              failed("convolution_graph(step=1, engine=1)", "another reason")};
  const doubtful_moves doubtful(p);
  EXPECT_TRUE(doubtful.any_in(parsed("channels_last(steps=0); fuse(steps=4); convolution_graph(step=4, engine=3)")));
  EXPECT_FALSE(doubtful.any_in(parsed("channels_last(steps=0); convolution_graph(step=4, engine=2)")));
  EXPECT_FALSE(doubtful.any_in(parsed("convolution_graph(step=4, engine=3)"))) << "its steps have other numbers";
  EXPECT_FALSE(doubtful.any_in(parsed("convolution_graph(step=1, engine=1)")));
}

}  // namespace
}  // namespace cudal1::test
