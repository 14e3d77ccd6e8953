// How long an evaluation occupies a GPU, besides the calls themselves.
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "config/configuration.hpp"
#include "sandbox/cuda/gpus/gpu.hpp"
#include "sandbox/device/device_type.hpp"
#include "tests/sandbox/cuda/session/gpu_session.hpp"

namespace cudal1 {
namespace {

std::string with_graph(std::string program) {
  const std::string outputs = R"("outputs":["y"])";
  return program.replace(program.find(outputs), outputs.size(), outputs + R"(,"execution":{"graph":true,"lanes":1})");
}

class rate : public gpu_session_test {
 protected:
  // The mean of evaluations of a task of so many elements, after the one that makes the draws.
  static gpu_finding mean_evaluation(int64_t elements, bool graph, const timing_plan& plan);
};

gpu_finding rate::mean_evaluation(int64_t elements, bool graph, const timing_plan& plan) {
  constexpr int evaluations = 20;
  const task t = relu_task(elements);
  gpu_finding mean;
  for (int i = -1; i < evaluations; ++i) {
    const std::string program = relu_program(
        elements, fmt::format("  const float mark = {}.0f;\n  y[i] = fmaxf(x[i], 0.0f * mark);", i + 100 * graph));
    const gpu_finding found = evaluate(t, graph ? with_graph(program) : program, plan);
    EXPECT_EQ(found.result, outcome::correct) << found.reason;
    if (i < 0) continue;
    mean.milliseconds += found.milliseconds / evaluations;
    mean.checked.total_ms += found.checked.total_ms / evaluations;
    mean.checked.load_ms += found.checked.load_ms / evaluations;
    mean.timed.total_ms += found.timed.total_ms / evaluations;
    mean.timed.load_ms += found.timed.load_ms / evaluations;
    mean.timed.flush_ms += found.timed.flush_ms / evaluations;
  }
  return mean;
}

TEST_F(rate, evaluations_of_a_small_task_take_milliseconds) {
  constexpr int64_t small = 1 << 18, large = 1 << 24;
  const auto defaults = default_configuration("cuda").timing;
  const timing_plan plan{.forks = static_cast<int>(defaults.screening_forks),
                         .pairs = static_cast<int>(defaults.screening_pairs),
                         .call_limit_ms = call_limit_ms,
                         .memory_limit_bytes = int64_t{4} << 30};
  std::printf("%-9s  %-10s  %8s  %8s  %8s  %8s  %8s  %8s ms\n", "elements", "launched", "all", "check", "its load",
              "timing", "loads", "flushes");
  for (const int64_t elements : {small, large})
    for (const bool graph : {false, true}) {
      const gpu_finding mean = mean_evaluation(elements, graph, plan);
      std::printf("%-9ld  %-10s  %8.2f  %8.2f  %8.2f  %8.2f  %8.2f  %8.2f\n", static_cast<long>(elements),
                  graph ? "as a graph" : "by steps", mean.milliseconds, mean.checked.total_ms, mean.checked.load_ms,
                  mean.timed.total_ms, mean.timed.load_ms, mean.timed.flush_ms);
      EXPECT_LT(mean.milliseconds, elements == small ? 100 : 1000);
    }
}

TEST_F(rate, a_query_of_the_devices_condition_takes_a_few_milliseconds_at_most) {
  const auto gpus = find_gpus();
  ASSERT_TRUE(gpus && !gpus->empty());
  auto watch = gpu_watch::open(gpus->front().uuid);
  ASSERT_TRUE(watch) << watch.error().message;
  constexpr int times = 20;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i)
    ASSERT_TRUE(watch->condition());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::printf("%.2f ms\n", took.count() / times);
  EXPECT_LT(took.count() / times, 5);
}

}  // namespace
}  // namespace cudal1
