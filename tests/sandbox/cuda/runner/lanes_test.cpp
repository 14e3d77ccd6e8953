#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/sandbox/cuda/runner/gpu_fixture.hpp"

namespace cudal1 {
namespace {

// Few blocks with long computations: kernels that can overlap with others.
constexpr std::string_view wander = R"(__global__ void wander(float* y, const float* x, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  for (int r = 0; r < rounds; ++r) v = v > 0.5f ? v - 0.93f : v + 0.37f;
  y[i] = v;
})";
constexpr int rounds = 1500;  // about 10 us

std::string aten(std::string_view op, std::string_view args, std::string_view out) {
  return fmt::format(R"({{"aten":"aten::{}","args":{{{}}},"out":["{}"]}})", op, args, out);
}
std::string sum_of(std::string_view a, std::string_view b, std::string_view out) {
  return aten("add.Tensor", fmt::format(R"("self":"{}","other":"{}")", a, b), out);
}

program program_of(const std::string& inputs, const std::string& weights, const std::vector<std::string>& steps,
                   const std::string& outputs, int lanes, std::string_view source = "") {
  auto text = fmt::format(R"({{"format":1,"name":"lanes","inputs":[{}],"weights":[{}],"steps":[{}],"outputs":[{}],)"
                          R"("execution":{{"graph":false,"lanes":{}}}}})",
                          inputs, weights, fmt::join(steps, ","), outputs, lanes);
  if (!source.empty()) text += "\n---\n" + std::string(source);
  auto p = read_program(text);
  EXPECT_TRUE(p) << p.error().message;
  return std::move(*p);
}

std::string declared(std::string_view name, std::string_view shape) {
  return fmt::format(R"({{"name":"{}","dtype":"float32","shape":{}}})", name, shape);
}

// Independent chains of `depth` kernels of ours that meet in a sum.
program kernel_chains(int chains, int depth, int lanes) {
  std::vector<std::string> steps;
  for (int d = 0; d < depth; ++d)
    for (int c = 0; c < chains; ++c) {
      const auto from = d == 0 ? std::string("x") : fmt::format("v{}_{}", c, d - 1), to = fmt::format("v{}_{}", c, d);
      steps.push_back(fmt::format(R"({{"alloc":"{}","dtype":"float32","shape":[1024]}})", to));
      steps.push_back(fmt::format(R"({{"launch":"wander","grid":[4,1,1],"block":[256,1,1],"shared_bytes":0,)"
                                  R"("args":[{{"out":"{}"}},{{"in":"{}"}},{{"i32":{}}}]}})",
                                  to, from, rounds + 10 * c));
    }
  std::string total = fmt::format("v0_{}", depth - 1);
  for (int c = 1; c < chains; ++c) {
    const auto next = fmt::format("sum{}", c);
    steps.push_back(sum_of(total, fmt::format("v{}_{}", c, depth - 1), next));
    total = next;
  }
  return program_of(declared("x", "[1024]"), "", steps, fmt::format(R"("{}","v0_0")", total), lanes, wander);
}

// Two chains of library calls with temporaries and workspaces of their own, which read each other's values halfway and
// go through views: a wrong overlap changes the outputs.
program library_chains(int lanes) {
  std::vector<std::string> steps{aten("t", R"("self":"w")", "wt")};
  const auto mm = [&](std::string_view a, std::string_view b, std::string_view out) {
    steps.push_back(aten("mm", fmt::format(R"("self":"{}","mat2":"{}")", a, b), out));
  };
  for (const auto* c : {"a", "b"}) {
    const auto name = [&](std::string_view what) { return fmt::format("{}_{}", c, what); };
    mm("x", c == std::string_view("a") ? "w" : "wt", name("product"));
    steps.push_back(aten("mul.Scalar", fmt::format(R"("self":"{}","other":0.03)", name("product")), name("scaled")));
    steps.push_back(aten("tanh", fmt::format(R"("self":"{}")", name("scaled")), name("bent")));
    steps.push_back(aten("t", fmt::format(R"("self":"{}")", name("bent")), name("view")));
    mm(name("view"), name("bent"), name("square"));
    steps.push_back(aten("mean", fmt::format(R"("self":"{}")", name("square")), name("mean")));
    steps.push_back(sum_of(name("square"), name("mean"), name("shifted")));
    steps.push_back(aten("relu", fmt::format(R"("self":"{}")", name("shifted")), name("last")));
  }
  mm("a_last", "b_view", "a_crossed");
  mm("b_last", "a_view", "b_crossed");
  steps.push_back(sum_of("a_crossed", "b_crossed", "y"));
  return program_of(declared("x", "[1024,1024]"), declared("w", "[1024,1024]"), steps, R"("y","b_mean")", lanes);
}

// Convolutions, whose library asks for workspaces of its own.
program convolution_chains(int lanes) {
  std::vector<std::string> steps;
  for (int d = 0; d < 3; ++d)
    for (const auto* c : {"a", "b"})
      steps.push_back(aten("conv2d",
                           fmt::format(R"("input":"{}","weight":"{}w","stride":[1,1],"padding":[1,1])",
                                       d == 0 ? "x" : fmt::format("{}{}", c, d - 1), c),
                           fmt::format("{}{}", c, d)));
  steps.push_back(sum_of("a2", "b2", "y"));
  return program_of(declared("x", "[8,64,56,56]"), declared("aw", "[64,64,3,3]") + "," + declared("bw", "[64,64,3,3]"),
                    steps, R"("y")", lanes);
}

class cuda_lanes : public gpu_test {
 protected:
  static std::string wander_object() { return cubin_of(wander); }

  // A program of one lane and one of several agree on every draw, launched one by one and as a graph.
  template <class Make>
  static void expect_the_same(const Make& make, std::string_view object = "") {
    const program alone = make(1);
    const given_memory weights = draw(alone.weights, std::vector<input_spec>(alone.weights.size()), 7);
    const auto wanted_from = load(alone, weights, object);
    for (const int lanes : {2, 4}) {
      const auto eager = load(make(lanes), weights, object), graph = load(with_graph(make(lanes)), weights, object);
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        const given_memory inputs = draw(alone.inputs, {input_spec{}}, seed);
        const auto wanted = outputs_of(*wanted_from, inputs, seed);
        for (const auto* r : {&eager, &graph}) {
          const auto got = outputs_of(**r, inputs, seed + 100);
          ASSERT_EQ(wanted.size(), got.size());
          for (std::size_t i = 0; i < got.size(); ++i)
            EXPECT_LE(difference(wanted[i], got[i]), 1e-5)
                << "output " << i << " of draw " << seed << ", " << lanes << " lanes, "
                << (r == &graph ? "as a graph" : "launched one by one");
        }
      }
      for (const auto& note : graph->notes())
        std::printf("%d lanes: %s\n", lanes, note.c_str());
    }
  }
};

TEST_F(cuda_lanes, our_kernels_compute_the_same_on_several_lanes) {
  expect_the_same([](int lanes) { return kernel_chains(4, 6, lanes); }, wander_object());
}

TEST_F(cuda_lanes, library_calls_compute_the_same_on_several_lanes) {
  expect_the_same(library_chains);
}

TEST_F(cuda_lanes, convolutions_compute_the_same_on_several_lanes) {
  expect_the_same(convolution_chains);
}

TEST_F(cuda_lanes, chains_of_small_kernels_overlap) {
  const auto object = wander_object();
  const given_memory none = draw({}, {}, 0);
  std::vector<given_memory> draws;
  for (uint64_t seed = 1; seed <= 4; ++seed)
    draws.push_back(draw(kernel_chains(2, 12, 1).inputs, {input_spec{}}, seed));
  std::printf("two chains of 12 kernels: us per synchronised call\nlanes  launched one by one  re-bound graph\n");
  double first = 0;
  for (const int lanes : {1, 2}) {
    const program p = kernel_chains(2, 12, lanes);
    const double launched = cost(*load(p, none, object), draws);
    const double replayed = cost(*load(with_graph(p), none, object), draws);
    std::printf("%5d  %19.1f  %14.1f\n", lanes, launched, replayed);
    if (lanes == 1)
      first = replayed;
    else
      EXPECT_LT(replayed, 0.8 * first);
  }
}

TEST_F(cuda_lanes, workspaces_of_lanes_are_made_once) {
  const given_memory weights = draw(library_chains(4).weights, {input_spec{}}, 7);
  const given_memory inputs = draw(library_chains(4).inputs, {input_spec{}}, 1);
  const auto bytes_behind = [&] {
    (void)outputs_of(*load(library_chains(4), weights), inputs, 3);
    return device().arena().bytes_in_use();
  };
  const auto first = bytes_behind();
  EXPECT_EQ(bytes_behind(), first);
  EXPECT_EQ(bytes_behind(), first);
}

}  // namespace
}  // namespace cudal1
