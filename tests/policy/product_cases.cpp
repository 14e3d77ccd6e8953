#include "tests/policy/product_cases.hpp"

#include <gtest/gtest.h>

#include "policy/moves/lowering.hpp"
#include "policy/moves/move_registry.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/task_texts.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {

task made(const std::string& name, const std::string& inputs, const std::string& weights, const std::string& steps,
          const std::string& outputs) {
  auto read = read_task(fmt::format(R"({{"format": 1, "name": "{}", "summary": "a test", "family": "test",)"
                                    R"("inputs": [{}], "weights": [{}], "steps": [{}], "outputs": [{}]}})",
                                    name, inputs, weights, steps, outputs),
                        "cpu");
  if (!read) throw std::runtime_error(name + ": " + read.error().message);
  return std::move(*read);
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& type) {
  return fmt::format(R"({{"name": "{}", "dtype": "{}", "shape": [{}]}})", name, type, shape);
}

std::string triangle(const std::string& name, const std::string& shape, const std::string& fact) {
  return fmt::format(R"({{"name": "{}", "dtype": "float32", "shape": [{}], )"
                     R"("draw": {{"distribution": "normal", "mean": 0, "std": 1}}, "facts": ["{}"]}})",
                     name, shape, fact);
}

std::string step(const std::string& op, const std::string& args, const std::string& out) {
  return fmt::format(R"({{"aten": "aten::{}", "args": {{{}}}, "out": ["{}"]}})", op, args, out);
}

namespace {

// The schedule without the values that are the default already, when all others are chosen.
schedule without_defaults(const task& t, const std::string& text) {
  auto plan = parse_schedule(text);
  if (!plan) throw std::runtime_error(plan.error().message);
  graph g(t);
  schedule out;
  std::vector<move> pending = std::move(plan->moves);
  for (std::size_t before = pending.size() + 1; pending.size() < before;) {
    before = pending.size();
    std::erase_if(pending, [&](const move& m) {
      graph next = g;
      const auto applied = apply_move(next, m, for_cuda());
      if (!applied && applied.error().message.find("would not help") == std::string::npos)
        throw std::runtime_error(t.name + ": " + applied.error().message);
      if (!applied) return false;
      g = std::move(next);
      out.moves.push_back(m);
      return true;
    });
  }
  return out;
}

}  // namespace

std::string refusal_of(const task& what, const std::string& schedule) {
  const auto lowered = lower(what, *parse_schedule(schedule), for_cuda());
  return lowered ? "" : lowered.error().message;
}

void expect_accepted(const std::vector<product_case>& all) {
  use_judging_arena();
  for (const auto& c : all) {
    auto lowered = lower(c.what, without_defaults(c.what, c.schedule), for_cuda());
    ASSERT_TRUE(lowered) << c.name << ": " << lowered.error().message;
    int kernels = 0, calls = 0;
    for (const auto& s : lowered->checked.text.steps) {
      kernels += std::holds_alternative<launch_step>(s) ? 1 : 0;
      if (const auto* call = std::get_if<aten_step>(&s)) calls += call->op == "aten::slice.Tensor" ? 0 : 1;
    }
    EXPECT_EQ(kernels, c.kernels) << c.name;
    EXPECT_EQ(calls, c.calls) << c.name;
    const bool by_lines = lowered->checked.text.source.find("own_lines") != std::string::npos;
    EXPECT_EQ(by_lines, c.name.starts_with("large_results")) << c.name;
    judged_task judged(c.what);
    EXPECT_EQ(judged.problem_of(lowered->checked.text), "") << c.name;
  }
}

void expect_compiled(const std::vector<product_case>& all) {
  for (const auto& c : all) {
    const auto lowered = lower(c.what, without_defaults(c.what, c.schedule), for_cuda());
    ASSERT_TRUE(lowered) << c.name << ": " << lowered.error().message;
    const auto made = compile(lowered->checked.text.source, "sm_90a");
    ASSERT_TRUE(made) << c.name << ": " << made.error().message;
    for (const auto& r : made->resources)
      EXPECT_EQ(r.spill_store_bytes, 0) << c.name << ": " << r.kernel;
  }
}

}  // namespace cudal1::test
