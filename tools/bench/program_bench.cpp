// Programs read per second: from text to checked program, with its id.
#include <benchmark/benchmark.h>

#include "tools/bench/sample_program.hpp"

namespace cudal1::bench {
namespace {

void read_and_check_program(benchmark::State& state) {
  const std::string text = generated_program(task_named("softmax"));
  if (text.empty()) return state.SkipWithError("no move writes a kernel for softmax");
  for (auto _ : state) {
    auto p = read_program(text);
    auto checked = check_program(std::move(*p));
    benchmark::DoNotOptimize(program_id(checked->text));
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["bytes"] = static_cast<double>(text.size());
}
BENCHMARK(read_and_check_program)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace cudal1::bench
