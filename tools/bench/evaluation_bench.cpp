// Evaluations per second on `cpu`, and the time of their stages: compile, open the task, check, screen. Without the
// search's store and actors.
#include <chrono>
#include <map>

#include <benchmark/benchmark.h>

#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/device/session.hpp"
#include "sandbox/verify/profiler.hpp"
#include "sandbox/verify/timing_draws.hpp"
#include "tools/bench/sample_program.hpp"

namespace cudal1::bench {
namespace {

using clock = std::chrono::steady_clock;

struct stages {
  std::map<std::string, double> ms;
  template <class F>
  auto run(const std::string& stage, F&& work) {
    const auto start = clock::now();
    auto result = work();
    ms[stage] += std::chrono::duration<double, std::milli>(clock::now() - start).count();
    return result;
  }
};

void evaluate_on_cpu(benchmark::State& state) {
  session_options options;
  options.device = "cpu";
  auto session = must(device_session::start(options));
  auto compiler = must(host_compiler::create({}));
  const task& t = task_named("softmax");
  const checked_program variant = must(check_program_text(generated_program(t)));
  const check_plan plan = plan_check(t, {});
  if (const auto first = session->open_task(t); !first) give_up(first.error());
  // The first check of a task draws its pool and computes the expected outputs, once for all its variants.
  must(session->check(variant, must(compiler->compile(variant)), plan));
  stages spent;
  double fork_ms = 0, flush_ms = 0;
  for (auto _ : state) {
    const auto code = must(spent.run("compile", [&] { return compiler->compile(variant); }));
    if (const auto opened = spent.run("open", [&] { return session->open_task(t); }); !opened) give_up(opened.error());
    const auto report = must(spent.run("check", [&] { return session->check(variant, code, plan); }));
    if (const auto j = judge(t, plan, report, {}); j.result != outcome::correct)
      give_up({errc::variant_fault, "the sample program fails: " + j.reason});
    timing_decider decider({}, 1e9);  // never a new best, like most evaluations
    while (decider.next() != timing_decider::action::stop) {
      const auto timed = must(spent.run("time", [&] {
        return check_and_time(*session, {t, variant, code}, plan, {decider.plan(), decider.next_fork()}, {});
      }));
      fork_ms += timed.load_ms;
      flush_ms += timed.flush_ms;
      spent.run("decide", [&] { return decider.add(timed), 0; });
    }
  }
  state.SetItemsProcessed(state.iterations());
  const auto n = static_cast<double>(state.iterations());
  for (const auto& [stage, ms] : spent.ms)
    state.counters[stage + "_ms"] = ms / n;
  state.counters["time_forks_ms"] = fork_ms / n;
  state.counters["time_flush_ms"] = flush_ms / n;
}
BENCHMARK(evaluate_on_cpu)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(5);

}  // namespace
}  // namespace cudal1::bench
