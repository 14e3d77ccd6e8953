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

}  // namespace
}  // namespace cudal1
