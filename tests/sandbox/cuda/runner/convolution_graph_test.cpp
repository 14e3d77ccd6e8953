// Convolutions with chains by cuDNN's graph API compute what ATen's operators do in float64, for every function, type,
// order of dimensions and kind of convolution for which there is an engine. Prints which engines there are.
#include <cmath>

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "sandbox/cuda/runtime/convolution_on_gpu.hpp"
#include "sandbox/cuda/runtime/own_gpu_operators.hpp"
#include "sandbox/interpreter/chain_by_aten.hpp"
#include "tests/sandbox/cuda/runner/gpu_fixture.hpp"

namespace cudal1 {
namespace {

enum class layout { channels_last, channels_first };

struct convolution_case {
  const char* name;
  int dims = 2;
  bool transposed = false;
  int64_t stride = 1, kernel = 3, groups = 1;
};

constexpr convolution_case plain_case = {.name = "2-D"};
constexpr convolution_case cases[] = {
    {.name = "2-D"},
    {.name = "2-D, stride 2", .stride = 2},
    {.name = "2-D, 4 groups", .groups = 4},
    {.name = "3-D", .dims = 3},
    {.name = "transposed 2-D", .transposed = true},
    {.name = "transposed 2-D, stride 2", .transposed = true, .stride = 2, .kernel = 4},
    {.name = "transposed 3-D", .dims = 3, .transposed = true},
    {.name = "transposed 3-D, stride 2", .dims = 3, .transposed = true, .stride = 2}};

class convolution_graphs : public gpu_test {
 protected:
  void SetUp() override {
    gpu_test::SetUp();
    if (IsSkipped()) return;
    use_own_gpu_operators();
    ASSERT_TRUE(device().arena().begin_call(1));
  }

  struct made_case {
    at::Tensor input, weight;
    std::vector<int64_t> stride, padding, dilation, output_padding;
    bool transposed = false;
    int64_t groups = 1;
    convolution_arguments arguments() const { return {stride, padding, dilation, transposed, output_padding, groups}; }
  };

  static made_case made(const convolution_case& c, at::ScalarType type, layout order) {
    constexpr int64_t batch = 2, inputs = 16, results = 32, size = 12;
    const auto n = static_cast<std::size_t>(c.dims);
    std::vector<int64_t> shape = {batch, inputs}, weights = c.transposed
                                                                ? std::vector<int64_t>{inputs, results / c.groups}
                                                                : std::vector<int64_t>{results, inputs / c.groups};
    shape.resize(n + 2, size);
    weights.resize(n + 2, c.kernel);
    const auto format = order == layout::channels_first ? at::MemoryFormat::Contiguous
                        : c.dims == 3                   ? at::MemoryFormat::ChannelsLast3d
                                                        : at::MemoryFormat::ChannelsLast;
    const auto drawn = [&](const std::vector<int64_t>& of) {
      return at::randn(of, at::TensorOptions(at::kFloat).device(at::kCUDA)).to(type).contiguous(format);
    };
    const auto terms = static_cast<double>(inputs / c.groups) * std::pow(static_cast<double>(c.kernel), c.dims);
    return {drawn(shape),
            drawn(weights).div(std::sqrt(terms)),
            std::vector<int64_t>(n, c.stride),
            std::vector<int64_t>(n, 1),
            std::vector<int64_t>(n, 1),
            std::vector<int64_t>(n, 0),
            c.transposed,
            c.groups};
  }

  static at::Tensor by_cudnn(const made_case& m, at::TensorList operands, const char* chain, int64_t engine = 0) {
    return convolution_graph_on_gpu(m.input, m.weight, operands, m.stride, m.padding, m.dilation, m.transposed,
                                    m.output_padding, m.groups, chain, engine);
  }

  // The largest difference from float64, relative to the largest element.
  static double error(const at::Tensor& got, const made_case& m, at::TensorList operands, const char* chain) {
    std::vector<at::Tensor> wide;
    for (const auto& operand : operands)
      wide.push_back(operand.to(at::kDouble));
    const auto wanted =
        convolution_graph_by_aten(m.input.to(at::kDouble), m.weight.to(at::kDouble), wide, m.arguments(), chain);
    if (!got.sizes().equals(wanted.sizes())) return std::numeric_limits<double>::infinity();
    const auto difference = at::sub(got.to(at::kDouble), wanted);
    return difference.abs().max().item().toDouble() / wanted.abs().max().item().toDouble();
  }

  static double allowed(at::ScalarType type) { return type == at::kBFloat16 ? 1.5e-2 : 3e-3; }

  static std::string engine_of(const convolution_case& c, const made_case& m, layout order, const char* chain,
                               int64_t engine) {
    convolution_graph_key key;
    key.type = m.input.scalar_type();
    key.channels_last = order == layout::channels_last;
    key.transposed = m.transposed;
    key.tf32 = true;
    key.input = m.input.sizes().vec();
    key.weight = m.weight.sizes().vec();
    key.result = convolution_graph_sizes(m.input, m.weight, m.stride, m.padding, m.dilation, m.transposed,
                                         m.output_padding, m.groups);
    key.stride = m.stride;
    key.padding = m.padding;
    key.dilation = m.dilation;
    key.operand_is_of_channels = {true};
    key.chain = chain;
    key.engine = engine;
    const convolution_plan& plan = convolution_plans::find(0, key);
    EXPECT_TRUE(plan.problem.empty() == (plan.plan.get() != nullptr)) << c.name;
    return plan.problem.empty() ? plan.engine : "none: " + plan.problem;
  }
};

constexpr at::ScalarType types[] = {at::kFloat, at::kHalf, at::kBFloat16};

TEST_F(convolution_graphs, compute_every_function) {
  const c10::InferenceMode no_autograd;
  for (const auto type : types) {
    const made_case m = made(plain_case, type, layout::channels_last);
    const std::vector<at::Tensor> operands = {at::randn({32}, m.input.options())};
    for (const auto& word : chain_words) {
      std::string chain(word.name);
      if (word.operands == 1) chain += "(0)";
      if (word.numbers == 1) chain += "(0.3)";
      if (word.numbers == 2) chain += "(-0.5,0.75)";
      SCOPED_TRACE(fmt::format("{} {}", c10::toString(type), chain));
      const auto some = word.operands == 1 ? at::TensorList(operands) : at::TensorList();
      EXPECT_LE(error(by_cudnn(m, some, chain.c_str()), m, some, chain.c_str()), allowed(type));
    }
    const char* chain = "mul(0) add(1) clamp(-inf,2) mul(1) silu";
    const std::vector<at::Tensor> both = {operands[0], by_cudnn(m, {}, "")};
    EXPECT_LE(error(by_cudnn(m, both, chain), m, both, chain), 3 * allowed(type)) << c10::toString(type);
  }
}

// Where there is no engine it says so.
TEST_F(convolution_graphs, compute_every_kind_of_convolution) {
  const c10::InferenceMode no_autograd;
  int found = 0;
  for (const auto& c : cases)
    for (const auto type : types)
      for (const auto order : {layout::channels_last, layout::channels_first})
        for (const char* chain : {"add(0) relu", "add(0) silu"}) {
          const bool last = order == layout::channels_last;
          SCOPED_TRACE(
              fmt::format("{}, {}, channels {}, {}", c.name, c10::toString(type), last ? "last" : "first", chain));
          const made_case m = made(c, type, order);
          const std::vector<at::Tensor> operands = {at::randn({32}, m.input.options())};
          try {
            const at::Tensor got = by_cudnn(m, operands, chain);
            EXPECT_LE(error(got, m, operands, chain), allowed(type));
            EXPECT_EQ(got.suggest_memory_format() == at::MemoryFormat::Contiguous, !last);
            ++found;
          } catch (const engine_missing& e) {
            EXPECT_NE(std::string(e.what()).find(no_engine_words), std::string::npos);
            std::printf("%s, %s, channels %s, %s: %s\n", c.name, c10::toString(type), last ? "last" : "first", chain,
                        e.what());
          }
        }
  EXPECT_GE(found, 30) << "of 96";
}

TEST_F(convolution_graphs, have_the_engines_that_this_prints) {
  const c10::InferenceMode no_autograd;
  for (const auto& c : {cases[0], cases[3], cases[4], cases[6]})
    for (const auto type : {at::kFloat, at::kBFloat16})
      for (const char* chain : {"add(0) relu", "add(0) gelu"}) {
        const made_case m = made(c, type, layout::channels_last);
        for (int64_t engine = 0; engine < 4; ++engine)
          std::printf("%s, %s, %s, engine %d: %s\n", c.name, c10::toString(type), chain, static_cast<int>(engine),
                      engine_of(c, m, layout::channels_last, chain, engine).c_str());
        EXPECT_EQ(engine_of(c, m, layout::channels_last, chain, 0).find("none"), std::string::npos) << c.name;
      }
}

// float32 without TF32 has its precision.
TEST_F(convolution_graphs, round_to_tf32_only_where_that_is_allowed) {
  const c10::InferenceMode no_autograd;
  const made_case m = made(plain_case, at::kFloat, layout::channels_last);
  const bool before = at::globalContext().allowTF32CuDNN();
  at::globalContext().setAllowTF32CuDNN(false);
  double strict = 1;
  EXPECT_NO_THROW(strict = error(by_cudnn(m, {}, "relu"), m, {}, "relu"));
  at::globalContext().setAllowTF32CuDNN(true);
  EXPECT_LE(strict, 1e-5);
  EXPECT_GT(error(by_cudnn(m, {}, "relu"), m, {}, "relu"), strict);
  at::globalContext().setAllowTF32CuDNN(before);
}

constexpr const char* k_program = R"({"format": 1, "name": "graph",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 16, 12, 12], "strides": [2304, 1, 192, 16]},
               {"name": "w", "dtype": "float32", "shape": [32, 16, 3, 3], "strides": [144, 1, 48, 16]},
               {"name": "b", "dtype": "float32", "shape": [32]}],
    "steps": [{"aten": "cudal1::convolution_graph",
               "args": {"input": "x", "weight": "w", "operands": ["b"], "stride": [1, 1], "padding": [1, 1],
                        "dilation": [1, 1], "transposed": false, "output_padding": [0, 0], "groups": 1,
                        "graph": "add(0) hardswish", "engine": ENGINE}, "out": ["y"]}],
    "outputs": ["y"]})";

std::string program_of(const std::string& engine) {
  std::string text = k_program;
  return text.replace(text.find("ENGINE"), 6, engine);
}

TEST_F(convolution_graphs, are_captured_as_a_part_of_a_program) {
  const auto checked = check_program_text(program_of("0"));
  ASSERT_TRUE(checked) << checked.error().message;
  const auto graph = expect_the_same_as_a_graph(checked->text, 0);
  for (const auto& note : graph->notes())
    std::printf("%s\n", note.c_str());
}

TEST_F(convolution_graphs, are_unsupported_where_the_engine_is_missing) {
  const auto checked = check_program_text(program_of("63"));
  ASSERT_TRUE(checked) << checked.error().message;
  const auto& p = checked->text;
  const auto loaded = load(p, draw({}, {}, 1));
  const given_memory inputs = draw(p.inputs, std::vector<input_spec>(p.inputs.size()), 1);
  ASSERT_TRUE(device().arena().begin_call(1));
  const auto called = loaded->call(inputs.views);
  ASSERT_FALSE(called);
  EXPECT_EQ(called.error().code, errc::unsupported);
  EXPECT_NE(called.error().message.find("has no engine 63 for this graph"), std::string::npos)
      << called.error().message;
}

}  // namespace
}  // namespace cudal1
