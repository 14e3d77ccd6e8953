// A whole referee with the backend of a GPU, on the CPU: requests of a session in, reports out.
#include "sandbox/referee/referee.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cuda/referee/gpu_backend.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/verify/verifier.hpp"
#include "tests/sandbox/cpu/compiler/harness.hpp"
#include "tests/sandbox/cuda/referee/cpu_device.hpp"
#include "tests/sandbox/cuda/referee/cpu_runner.hpp"

namespace cudal1::test {
namespace {

constexpr int64_t n = 5000;

// y = relu(x + w) by a kernel with this body; `i` is the element.
std::string program_with(const std::string& body, const std::string& x_size = std::to_string(n)) {
  const std::string size = std::to_string(n);
  return R"({"format":1,"name":"add_relu","inputs":[{"name":"x","dtype":"float32","shape":[)" + x_size +
         R"(]}],"weights":[{"name":"w","dtype":"float32","shape":[)" + size +
         R"(]}],"steps":[{"alloc":"y","dtype":"float32","shape":[)" + size +
         R"(]},{"launch":"f","grid":[20,1,1],"block":[256,1,1],"args":[{"in":"x"},{"in":"w"},{"out":"y"},{"i32":)" +
         size +
         "}]}],\"outputs\":[\"y\"]}\n---\n__global__ void f(const float* x, const float* w, float* y, int n) {\n"
         "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n" +
         body + "\n}\n";
}

const char* const right = "if (i < n) { float s = x[i] + w[i]; y[i] = s > 0.0f ? s : 0.0f; }";

std::unique_ptr<referee> make_referee(int64_t memory_bound) {
  return std::make_unique<referee>(std::make_unique<gpu_backend>(make_cpu_device()), memory_bound);
}

struct refereeing : testing::Test {
  std::unique_ptr<referee> subject = make_referee(int64_t{1} << 28);
  task t = add_relu_task(n);
  verification_options gates;
  std::vector<forked_process> runners;

  void SetUp() override {
    open();
    attach();
  }

  expected<referee_reply> ask(frame_type type, const json& body, std::vector<unique_fd> descriptors = {}) {
    frame f{type, body, std::move(descriptors)};
    return subject->answer(f);
  }
  void open(bool renew = false) {
    const auto opened = ask(frame_type::open_task, to_json(open_task_request{canonical_text(t), renew}));
    ASSERT_TRUE(opened) << opened.error().message;
  }
  void attach(bool spoils = false) {
    auto& runner = runners.emplace_back(fork_process([=](int channel) { return serve_on_cpu(channel, spoils); }));
    std::vector<unique_fd> descriptors;
    descriptors.push_back(std::move(runner.channel));
    descriptors.push_back(std::move(runner.pidfd));
    ASSERT_TRUE(ask(frame_type::attach, json(json::object()), std::move(descriptors)));
  }

  struct made_variant {
    variant_text text;
    std::string object;
    std::vector<unique_fd> descriptors() const {
      std::vector<unique_fd> all;
      if (!object.empty()) all.push_back(std::move(*make_sealed_file("object", object)));
      return all;
    }
  };
  static made_variant variant_of(const std::string& program) {
    const auto checked = check_program_text(program);
    EXPECT_TRUE(checked) << checked.error().message;
    const auto code = compiler().compile(*checked);
    EXPECT_TRUE(code) << code.error().message;
    return {{program, checked->id}, code->object};
  }
  check_plan plan() const {
    check_plan p = plan_check(t, gates);
    p.call_limit_ms = 500;
    p.memory_limit_bytes = 16 << 20;
    return p;
  }
  expected<referee_reply> check(const made_variant& v) {
    return ask(frame_type::check, to_json(check_request{v.text, plan()}), v.descriptors());
  }
  judgement judged(const made_variant& v) {
    const auto reply = check(v);
    EXPECT_TRUE(reply) << reply.error().message;
    return judge(t, plan(), reply->check, gates);
  }
  timing_plan timing() const { return {.forks = 1, .pairs = 5, .call_limit_ms = 500, .memory_limit_bytes = 16 << 20}; }
  expected<referee_reply> check_pool(const made_variant& v, bool only_count) {
    return ask(frame_type::check_pool,
               to_json(check_pool_request{v.text, timing(), plan().close, plan().close_loose, only_count}),
               v.descriptors());
  }
  expected<referee_reply> time_fork(const made_variant& v) {
    return ask(frame_type::time_fork, to_json(time_fork_request{v.text, timing(), 3}), v.descriptors());
  }
};

TEST_F(refereeing, a_right_variant_is_right_on_every_draw) {
  const auto reply = check(variant_of(program_with(right)));
  ASSERT_TRUE(reply) << reply.error().message;
  const check_report& report = reply->check;
  ASSERT_FALSE(report.problem) << report.problem->reason;
  EXPECT_EQ(report.draws.size(), plan().draws.size());
  EXPECT_TRUE(report.repeatable);
  EXPECT_THAT(report.notes, testing::ElementsAre("computed on the CPU"));
  for (const auto& d : report.draws)
    EXPECT_EQ(d.outputs.at(0).max_absolute, 0) << enum_name(d.draw.kind);
  const judgement j = judge(t, plan(), report, gates);
  EXPECT_EQ(j.result, outcome::correct) << j.reason;
  EXPECT_FALSE(reply->runner_ended);
}

TEST_F(refereeing, the_tasks_own_program_is_right_without_an_object) {
  EXPECT_EQ(judged({{print_program(t.reference.text), "own"}, ""}).result, outcome::correct);
}

TEST_F(refereeing, one_runner_serves_one_variant_after_another) {
  EXPECT_EQ(judged(variant_of(program_with("if (i < n) y[i] = x[i] + w[i];"))).result, outcome::wrong_answer);
  EXPECT_EQ(judged(variant_of(program_with("if (i < n / 2) y[i] = 0.0f;"))).result, outcome::wrong_answer)
      << "half of it is poison";
  EXPECT_EQ(judged(variant_of(program_with(right))).result, outcome::correct);
}

TEST_F(refereeing, a_write_beside_a_tensor_is_detected_and_the_runner_continues) {
  const judgement j = judged(variant_of(program_with(std::string(right) + " if (i == n) y[i + 3] = 1.0f;")));
  EXPECT_EQ(j.result, outcome::out_of_bounds) << j.reason;
  EXPECT_EQ(judged(variant_of(program_with(right))).result, outcome::correct);
}

TEST_F(refereeing, a_variant_that_kills_its_runner_needs_another_one) {
  const auto reply = check(variant_of(program_with("if (i < n) ((float*)x)[i] = 0.0f;")));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_TRUE(reply->variant_runner_lost) << "the inputs are mapped for reading";
  EXPECT_TRUE(reply->runner_ended);
  EXPECT_EQ(runners.back().wait(), SIGSEGV);
  const made_variant good = variant_of(program_with(right));
  EXPECT_EQ(check(good).error().code, errc::infrastructure);
  attach();
  EXPECT_EQ(judged(good).result, outcome::correct);
}

TEST_F(refereeing, results_that_depend_on_poison_do_not_repeat) {
  const auto reply = check(variant_of(program_with("if (i < n) y[i] = y[i] * 1.0f;")));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_FALSE(reply->check.repeatable);
}

TEST_F(refereeing, a_write_into_the_outputs_of_an_earlier_call_is_detected) {
  attach(true);
  const judgement j = judged(variant_of(program_with(right)));
  EXPECT_EQ(j.result, outcome::out_of_bounds);
  EXPECT_EQ(j.reason, "a call wrote into the outputs of an earlier one");
}

TEST_F(refereeing, other_inputs_than_the_tasks_are_invalid) {
  const auto reply = check(variant_of(program_with(right, std::to_string(n - 1))));
  ASSERT_TRUE(reply) << reply.error().message;
  ASSERT_TRUE(reply->check.problem);
  EXPECT_EQ(reply->check.problem->kind, outcome::invalid);
}

TEST_F(refereeing, times_pairs_of_calls_on_checked_draws) {
  const made_variant v = variant_of(program_with(right));
  ASSERT_EQ(judged(v).result, outcome::correct);
  const auto left = check_pool(v, true);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->unchecked, 8 - gates.declared_draws)
      << "5 pairs, 2 on the device's clock and one call before them; draws of the check count";
  EXPECT_TRUE(left->check.draws.empty());
  bool refused = false;
  for (int i = 0; i < 30 && !refused; ++i)  // a fork whose warm-up is on the unchecked draw does not time it
    refused = !time_fork(v);
  EXPECT_TRUE(refused) << "not before the whole pool is checked";
  const auto all = check_pool(v, false);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->unchecked, 0);
  EXPECT_EQ(all->check.load_ms, 0) << "it is resident from its check";
  const auto timed = time_fork(v);
  ASSERT_TRUE(timed) << timed.error().message;
  const timing_report& report = timed->timing;
  ASSERT_FALSE(report.problem);
  EXPECT_EQ(report.inconsistency, "");
  ASSERT_EQ(report.samples.size(), 5U);
  for (std::size_t i = 0; i < report.samples.size(); ++i) {
    const auto& s = report.samples[i];
    EXPECT_EQ(s.fork, 3);
    EXPECT_GT(s.reference_us, 0);
    EXPECT_GT(s.variant_us, 0);
    EXPECT_EQ(s.variant_device_us > 0, i < 2);
    EXPECT_EQ(s.reference_device_us > 0, i < 2);
  }
  EXPECT_EQ(report.outputs_fingerprinted, 7);
  EXPECT_EQ(report.outputs_compared, 1) << "any one of the fork";
}

TEST_F(refereeing, renewed_draws_must_be_checked_again) {
  const made_variant v = variant_of(program_with(right));
  ASSERT_EQ(judged(v).result, outcome::correct);
  open(true);
  EXPECT_EQ(check_pool(v, true)->unchecked, 8);
}

TEST_F(refereeing, a_renewed_pool_is_right_in_the_same_memory) {
  const made_variant v = variant_of(program_with(right)), other = variant_of(program_with("if (i < n) y[i] = x[i];"));
  ASSERT_EQ(judged(v).result, outcome::correct);
  for (int renewal = 0; renewal < 5; ++renewal) {
    open(true);
    const auto reply = check_pool(v, false);
    ASSERT_TRUE(reply) << reply.error().message;
    ASSERT_EQ(reply->check.draws.size(), 8U);
    EXPECT_EQ(reply->check.load_ms, 0);
    for (const auto& d : reply->check.draws)
      EXPECT_EQ(d.outputs.at(0).max_absolute, 0) << "with the weights of the renewal";
    ASSERT_TRUE(time_fork(v));
  }
  EXPECT_EQ(judged(other).result, outcome::wrong_answer);
  open(true);
  EXPECT_GT(check_pool(v, false)->check.load_ms, 0) << "another one is resident";
}

TEST_F(refereeing, draws_that_do_not_fit_in_memory_together_are_timed_too) {
  subject = make_referee(1);  // a bound that holds one draw
  open();
  attach();
  const made_variant v = variant_of(program_with(right));
  ASSERT_EQ(judged(v).result, outcome::correct);
  ASSERT_TRUE(check_pool(v, false));
  const auto timed = time_fork(v);
  ASSERT_TRUE(timed) << timed.error().message;
  EXPECT_EQ(timed->timing.inconsistency, "");
  EXPECT_EQ(timed->timing.samples.size(), 5U) << "as many pairs as requested";
}

// The runner, which is this test's, refuses to time a program on inputs that it has met since it was loaded.
TEST_F(refereeing, no_program_is_timed_on_a_draw_that_it_has_met) {
  const made_variant v = variant_of(program_with(right));
  ASSERT_EQ(judged(v).result, outcome::correct);
  for (const auto& [forks, by_device] :
       {std::pair(1, false), std::pair(1, true), std::pair(2, false), std::pair(2, true)})
    for (const int pairs : {1, 5, 7, 100}) {
      timing_plan plan = timing();
      plan.forks = forks;
      plan.pairs = pairs;
      plan.scored_by = by_device ? score_clock::device : score_clock::call;
      const check_pool_request all{v.text, plan, this->plan().close, this->plan().close_loose, false};
      ASSERT_TRUE(ask(frame_type::check_pool, to_json(all), v.descriptors()));
      const auto timed = ask(frame_type::time_fork, to_json(time_fork_request{v.text, plan, 0}), v.descriptors());
      ASSERT_TRUE(timed) << forks << " forks, " << pairs << " pairs: " << timed.error().message;
      const int some = forks == 1 ? 2 : 1;
      const int device_pairs = std::min(by_device ? 4 : some, pairs);
      const int warm_pairs = by_device ? std::clamp(9 - device_pairs - pairs, 0, std::min(some, pairs)) : 0;
      EXPECT_EQ(timed->timing.samples.size(), static_cast<std::size_t>(std::min(pairs, 9 - device_pairs)));
      EXPECT_EQ(std::ranges::count_if(timed->timing.samples, [](const auto& s) { return s.variant_device_us > 0; }),
                device_pairs);
      EXPECT_EQ(std::ranges::count_if(timed->timing.samples,
                                      [](const auto& s) { return s.variant_warm_us > 0 && s.reference_warm_us > 0; }),
                warm_pairs);
    }
}

TEST_F(refereeing, several_forks_take_one_device_time_each) {
  const made_variant v = variant_of(program_with(right));
  ASSERT_EQ(judged(v).result, outcome::correct);
  ASSERT_TRUE(check_pool(v, false));
  timing_plan plan = timing();
  plan.forks = 2;
  const auto timed = ask(frame_type::time_fork, to_json(time_fork_request{v.text, plan, 0}), v.descriptors());
  ASSERT_TRUE(timed) << timed.error().message;
  for (std::size_t i = 0; i < timed->timing.samples.size(); ++i)
    EXPECT_EQ(timed->timing.samples[i].variant_device_us > 0, i == 0);
  EXPECT_EQ(timed->timing.outputs_fingerprinted, 6);
}

TEST_F(refereeing, invalid_requests_are_errors) {
  EXPECT_EQ(ask(frame_type::spawn, json(json::object())).error().code, errc::corrupt);
  EXPECT_EQ(ask(frame_type::attach, json(json::object())).error().code, errc::corrupt);
  const auto fresh = make_referee(1 << 28);
  frame f{frame_type::check, to_json(check_request{{program_with(right), "k"}, plan()}), {}};
  EXPECT_EQ(fresh->answer(f).error().code, errc::invalid_argument) << "no task is open";
}

TEST_F(refereeing, a_task_that_was_forgotten_is_opened_again) {
  const auto v = variant_of(program_with(right));
  ASSERT_TRUE(check(v));
  ASSERT_TRUE(ask(frame_type::forget_tasks, json(json::object())));
  EXPECT_EQ(check(v).error().code, errc::invalid_argument) << "no task is open";
  open();
  const auto reply = check(v);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_FALSE(reply->check.problem);
}

}  // namespace
}  // namespace cudal1::test
