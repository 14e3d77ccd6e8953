#include <algorithm>
#include <cstdlib>
#include <map>

#include "config/base/describe.hpp"
#include "tests/sandbox/cuda/session/gpu_session.hpp"

namespace cudal1 {
namespace {

constexpr int64_t elements = 1 << 18;

class faults : public gpu_session_test {
 protected:
  static timing_plan short_plan() { return {.forks = 1, .pairs = 3, .call_limit_ms = call_limit_ms}; }

  // A third of them is wrong; no two have the same text.
  static std::string variant(int i) {
    const char* wrong = i % 3 == 1 ? " + 1.0f" : "";
    return relu_program(elements,
                        fmt::format("  const float mark = {}.0f;\n  y[i] = fmaxf(x[i], 0.0f * mark){};", i, wrong));
  }
  static outcome wanted(int i) { return i % 3 == 1 ? outcome::wrong_answer : outcome::correct; }

  struct bad {
    const char* name;
    std::string program;
    std::vector<outcome> outcomes;
  };
  static std::vector<bad> all_faults() {
    const std::string huge = R"({"alloc":"big","dtype":"float32","shape":[9000000000]},)";
    return {
        {"an illegal address", relu_program(elements, "  y[i + (1ll << 40)] = x[i];"), {outcome::out_of_bounds}},
        {"a write beside its tensor",
         relu_program(elements, "  y[i] = fmaxf(x[i], 0.0f); if (i == n - 1) y[n + 3] = 1.0f;"),
         {outcome::out_of_bounds}},
        {"a write into an input",
         relu_program(elements, "  y[i] = fmaxf(x[i], 0.0f); const_cast<float*>(x)[i] = 1.0f;"),
         {outcome::out_of_bounds, outcome::wrote_input}},
        {"an endless loop",
         relu_program(elements, "  volatile float* v = y; while (v[i] != 12345.678f) v[i] = x[i];"),
         {outcome::hang}},
        {"too much shared memory",
         relu_program(elements, "  y[i] = fmaxf(x[i], 0.0f);", 231 * 1024),
         {outcome::invalid, outcome::out_of_memory, outcome::crash}},
        {"a trap",
         relu_program(elements, "  y[i] = fmaxf(x[i], 0.0f); if (x[i] > -100.0f) __trap();"),
         {outcome::crash}},
        {"a huge allocation", relu_program(elements, "  y[i] = fmaxf(x[i], 0.0f);", 0, huge), {outcome::out_of_memory}},
    };
  }
};

TEST_F(faults, each_is_a_verdict_and_the_next_evaluation_starts_soon) {
  const task t = relu_task(elements);
  EXPECT_EQ(evaluate(t, variant(0), short_plan()).result, outcome::correct);
  for (const auto& f : all_faults()) {
    SCOPED_TRACE(f.name);
    const gpu_finding found = evaluate(t, f.program, short_plan());
    EXPECT_TRUE(std::ranges::count(f.outcomes, found.result)) << enum_name(found.result) << ": " << found.reason;
    const gpu_finding next = evaluate(t, variant(3), short_plan());
    EXPECT_EQ(next.result, outcome::correct) << next.reason;
    std::printf("%-26s %-14s after %4.0f ms, the next in %4.0f ms: %s\n", f.name, enum_name(found.result).c_str(),
                found.milliseconds, next.milliseconds, found.reason.c_str());
    EXPECT_LT(next.milliseconds, 2000);
  }
}

TEST_F(faults, fifty_among_five_hundred_change_no_other_verdict) {
  const char* text = std::getenv("CUDAL1_FAULT_EVALUATIONS");
  const int evaluations = text != nullptr ? std::atoi(text) : 50;
  const task t = relu_task(elements);
  const auto bad = all_faults();
  int done = 0, faulty = 0;
  std::map<std::string, int> outcomes;
  for (int i = 0; i < evaluations; ++i) {
    if (i % 10 == 5) {
      const auto& f = bad[static_cast<std::size_t>(faulty++) % bad.size()];
      const gpu_finding found = evaluate(t, f.program, short_plan());
      EXPECT_TRUE(std::ranges::count(f.outcomes, found.result)) << f.name << ": " << found.reason;
      continue;
    }
    const gpu_finding found = evaluate(t, variant(i), short_plan());
    EXPECT_EQ(found.result, wanted(i)) << "variant " << i << ": " << found.reason;
    ++outcomes[enum_name(found.result)];
    ++done;
  }
  for (const auto& [name, count] : outcomes)
    std::printf("%s: %d\n", name.c_str(), count);
  std::printf("%d faults among %d evaluations; %d other verdicts\n", faulty, evaluations, done);
}

}  // namespace
}  // namespace cudal1
