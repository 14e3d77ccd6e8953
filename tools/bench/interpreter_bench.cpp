// The overhead of a step of the interpreter over its operator: programs of 1 and of 21 tiny relus, and the same boxed
// call in a plain loop.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

#include "sandbox/interpreter/interpreter.hpp"
#include "tools/bench/sample_program.hpp"

namespace cudal1::bench {
namespace {

program relus(int count) {
  std::string steps;
  for (int i = 0; i < count; ++i)
    steps += fmt::format(R"({}{{"aten": "aten::relu", "args": {{"self": "v{}"}}, "out": ["v{}"]}})", i > 0 ? ", " : "",
                         i, i + 1);
  return must(read_program(fmt::format(
      R"({{"format": 1, "name": "relus", "inputs": [{{"name": "v0", "dtype": "float32", "shape": [1]}}], "steps": [{}], "outputs": ["v{}"]}})",
      steps, count)));
}

// The argument is the number of steps; (time of 21 - time of 1) / 20 is the time of one step, operator included.
void interpret_relus(benchmark::State& state) {
  auto machine = must(interpreter::load(must(check_program(relus(static_cast<int>(state.range(0))))), nullptr));
  if (const auto set = machine->set_weights({}); !set) give_up(set.error());
  float x = -1;
  const std::vector<tensor_view> inputs{{contiguous(dtype::float32, {1}), &x}};
  for (auto _ : state) {
    if (const auto done = machine->call(inputs); !done) give_up(done.error());
    machine->release();
  }
}
BENCHMARK(interpret_relus)->Arg(1)->Arg(21);

// The time of the operator itself, boxed.
void boxed_relu(benchmark::State& state) {
  const c10::InferenceMode guard;
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::relu", "");
  const at::Tensor x = at::empty({1});
  std::vector<c10::IValue> stack;
  for (auto _ : state) {
    stack.emplace_back(x);
    op.callBoxed(&stack);
    benchmark::DoNotOptimize(stack.back());
    stack.clear();
  }
}
BENCHMARK(boxed_relu);

}  // namespace
}  // namespace cudal1::bench
