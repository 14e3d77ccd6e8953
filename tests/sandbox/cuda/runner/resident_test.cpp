#include "tests/sandbox/cuda/runner/gpu_fixture.hpp"

namespace cudal1 {
namespace {

TEST_F(gpu_test, a_rebound_graph_computes_what_the_steps_compute_on_every_draw) {
  const auto folder = builtin_task_folder();
  ASSERT_TRUE(folder) << folder.error().message;
  const auto tasks = load_tasks(*folder, "cuda");
  ASSERT_TRUE(tasks) << tasks.error().message;
  for (const auto& t : *tasks) {
    SCOPED_TRACE(t.name);
    const program& p = t.reference.text;
    const given_memory weights = draw(p.weights, t.weights, 7);
    const auto plain = load(p, weights);
    const auto graph = load(with_graph(p), weights);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const given_memory inputs = draw(p.inputs, t.inputs, seed);
      const auto wanted = outputs_of(*plain, inputs, seed);
      const auto got = outputs_of(*graph, inputs, seed + 100);
      ASSERT_EQ(wanted.size(), got.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LE(difference(wanted[i], got[i]), 1e-5) << "output " << i << " of draw " << seed;
    }
    for (const auto& note : graph->notes())
      std::printf("%s: %s\n", t.name.c_str(), note.c_str());
  }
}

// cuBLAS passes the parameters of such kernels as one buffer, with descriptions of the tensors that contain pointers.
TEST_F(gpu_test, a_graph_of_a_product_of_half_types_is_bound_to_its_tensors) {
  for (const char* type : {"float16", "bfloat16", "float32"})
    for (const int size : {64, 512, 1000, 2048}) {
      SCOPED_TRACE(fmt::format("{} {}", type, size));
      const auto checked = check_program_text(fmt::format(
          R"({{"format": 1, "name": "product",
    "inputs": [{{"name": "a", "dtype": "{0}", "shape": [{1}, {1}]}}, {{"name": "b", "dtype": "{0}", "shape": [{1}, {1}]}}],
    "steps": [{{"aten": "aten::matmul", "args": {{"self": "a", "other": "b"}}, "out": ["c"]}},
              {{"aten": "aten::relu", "args": {{"self": "c"}}, "out": ["y"]}}],
    "outputs": ["y"]}})",
          type, size));
      ASSERT_TRUE(checked) << checked.error().message;
      const auto graph = expect_the_same_as_a_graph(checked->text, 0);
      EXPECT_TRUE(graph->notes().empty()) << graph->notes()[0];
    }
}

// The kernel writes all of the tensor, of which the output is the first half.
TEST_F(gpu_test, an_output_of_a_graph_may_be_a_part_of_a_tensor) {
  const auto checked = check_program_text(R"({"format": 1, "name": "half",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [512, 64]}],
    "steps": [{"aten": "aten::relu", "args": {"self": "x"}, "out": ["a"]},
              {"aten": "aten::slice.Tensor", "args": {"self": "a", "dim": 0, "start": 0, "end": 256}, "out": ["y"]}],
    "outputs": ["y"]})");
  ASSERT_TRUE(checked) << checked.error().message;
  expect_the_same_as_a_graph(checked->text, 0);
}

// In a capture, and only there, attention makes its random state on the GPU: two blocks more than in any other call.
// The small output lies where the large temporary values were, unless it is kept apart from them.
TEST_F(gpu_test, a_graph_with_attention_writes_nothing_beside_its_tensors) {
  const auto checked = check_program_text(R"({"format": 1, "name": "attention",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 8, 64, 32]}],
    "steps": [
      {"aten": "aten::sigmoid", "args": {"self": "x"}, "out": ["a"]},
      {"aten": "aten::scaled_dot_product_attention", "args": {"query": "a", "key": "x", "value": "x"}, "out": ["b"]},
      {"aten": "aten::scaled_dot_product_attention", "args": {"query": "x", "key": "b", "value": "b"}, "out": ["c"]},
      {"aten": "aten::relu", "args": {"self": "c"}, "out": ["d"]},
      {"aten": "aten::sum.dim_IntList", "args": {"self": "d", "dim": [3]}, "out": ["y"]}],
    "outputs": ["y"]})");
  ASSERT_TRUE(checked) << checked.error().message;
  expect_the_same_as_a_graph(checked->text, 1e-5);
}

}  // namespace
}  // namespace cudal1
