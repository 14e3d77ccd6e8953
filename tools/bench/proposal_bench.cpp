// Proposals per second, in one thread: what a policy without a model does for one variant, and its parts.
#include <benchmark/benchmark.h>

#include "policy/estimate/program_estimate.hpp"
#include "policy/search/policy_registry.hpp"
#include "policy/search/schedule_builder.hpp"
#include "tools/bench/sample_program.hpp"

namespace cudal1::bench {
namespace {

const lowering_target& target() {
  return *must(find_lowering_target("cuda"));
}

// Schedules of the built-in tasks, drawn as random search draws them: the same in each run.
std::vector<std::pair<const task*, schedule>> drawn_schedules() {
  std::vector<std::pair<const task*, schedule>> drawn;
  random_source random(1);
  for (const auto& t : tasks())
    for (int i = 0; i < 4; ++i)
      drawn.emplace_back(&t, random_schedule(t, target(), random).moves());
  return drawn;
}

void draw_schedule(benchmark::State& state) {
  random_source random(1);
  std::size_t at = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(random_schedule(tasks()[at++ % tasks().size()], target(), random));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(draw_schedule)->Unit(benchmark::kMicrosecond);

void lower_schedule(benchmark::State& state) {
  const auto drawn = drawn_schedules();
  std::size_t at = 0;
  for (auto _ : state) {
    const auto& [what, plan] = drawn[at++ % drawn.size()];
    benchmark::DoNotOptimize(lower(*what, plan, target()));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(lower_schedule)->Unit(benchmark::kMicrosecond);

// Without lowering it.
void estimate_schedule(benchmark::State& state) {
  const device_data gpu = *must(find_device_data("NVIDIA H100 80GB HBM3"));
  std::vector<lowered> programs;
  for (const auto& [what, plan] : drawn_schedules())
    programs.push_back(must(lower(*what, plan, target())));
  std::size_t at = 0;
  for (auto _ : state) {
    const lowered& next = programs[at++ % programs.size()];
    benchmark::DoNotOptimize(estimate_of(next.checked, next.work, gpu));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(estimate_schedule)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace cudal1::bench
