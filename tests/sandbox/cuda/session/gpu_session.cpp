#include "tests/sandbox/cuda/session/gpu_session.hpp"

#include <chrono>
#include <thread>

#include "sandbox/cuda/compiler/nvrtc_compiler.hpp"
#include "sandbox/cuda/gpus/gpu.hpp"
#include "sandbox/verify/timing_draws.hpp"

namespace cudal1 {

void gpu_session_test::SetUpTestSuite() {
  const auto gpus = find_gpus();
  if (gpus && gpus->empty()) {
    why_skipped_ = "this machine has no GPU";
    return;
  }
  const auto started = gpus ? start(gpus->front()) : tl::unexpected<error>(gpus.error());
  if (!started) why_failed_ = started.error().message;
}

// The programs here are the tests' own, so a machine that confines less, as a rented container, will do.
expected<void> gpu_session_test::start(const gpu_description& gpu) {
  session_options options;
  options.device = "cuda:0";
  options.allow_weak_confinement = true;
  // The processes of the suite before this one may still have the device.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  auto started = device_session::start(options);
  while (!started && started.error().code == errc::already_exists && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    started = device_session::start(options);
  }
  CUDAL1_TRY(session_, std::move(started));
  if (const auto missing = missing_confinement(session_->report().confinement); !missing.empty())
    std::printf("this machine lacks a confinement: %s\n", missing.c_str());
  nvrtc_compiler_options how;
  how.architecture = gpu.architecture();
  how.allow_weak_confinement = true;
  CUDAL1_TRY(compiler_, nvrtc_compiler::create(how));
  return {};
}

void gpu_session_test::TearDownTestSuite() {
  session_.reset();
  compiler_.reset();
  why_skipped_.clear();
  why_failed_.clear();
}

void gpu_session_test::SetUp() {
  if (!why_skipped_.empty()) GTEST_SKIP() << why_skipped_;
  // Each test says it: of a long log often only the end is read.
  ASSERT_EQ(why_failed_, "") << "there is no session of cuda:0, or no compiler for it";
}

task gpu_session_test::relu_task(int64_t elements) {
  static constexpr std::string_view steps =
      R"("steps":[{"aten":"aten::relu","args":{"self":"x"},"out":["y"]}],"outputs":["y"]})";
  const std::string text =
      fmt::format(R"({{"format":1,"name":"relu","inputs":[{{"name":"x","dtype":"float32","shape":[{}]}}],)", elements);
  return read_task(text + std::string(steps), "cuda").value();
}

task gpu_session_test::chain_task(int64_t elements, int operators) {
  std::string text =
      fmt::format(R"({{"format":1,"name":"chain","inputs":[{{"name":"x","dtype":"float32","shape":[{}]}}],)", elements);
  std::string value = "x";
  text += R"("steps":[)";
  for (int i = 0; i < operators; ++i) {
    const std::string next = fmt::format("v{}", i);
    text += fmt::format(R"({}{{"aten":"aten::add.Scalar","args":{{"self":"{}","other":1}},"out":["{}"]}})",
                        i == 0 ? "" : ",", value, next);
    value = next;
  }
  return read_task(text + R"(],"outputs":[")" + value + R"("]})", "cuda").value();
}

std::string gpu_session_test::relu_program(int64_t elements, const std::string& body, int64_t shared_bytes,
                                           const std::string& head) {
  return fmt::format(
      R"({{"format":1,"name":"relu","inputs":[{{"name":"x","dtype":"float32","shape":[{0}]}}],"steps":[{3})"
      R"({{"alloc":"y","dtype":"float32","shape":[{0}]}},{{"launch":"k","grid":[{1},1,1],"block":[256,1,1],)"
      R"("shared_bytes":{2},"args":[{{"in":"x"}},{{"out":"y"}},{{"i32":{0}}}]}}],"outputs":["y"]}})"
      "\n---\n__global__ void k(const float* x, float* y, int n) {{\n"
      "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n{4}\n}}\n",
      elements, (elements + 255) / 256, shared_bytes, head, body);
}

gpu_finding gpu_session_test::evaluate(const task& t, const std::string& program, const timing_plan& plan) {
  gpu_finding found;
  const auto checked = check_program_text(program);
  if (!checked) return {outcome::invalid, checked.error().message, 0, {}, {}};
  const auto code = compiler_->compile(*checked);
  if (!code) return {outcome::compile_error, code.error().message, 0, {}, {}};
  const auto start = std::chrono::steady_clock::now();
  const auto opened = session_->open_task(t);
  EXPECT_TRUE(opened) << opened.error().message;
  verification_options gates;
  gates.call_limit_ms = call_limit_ms;
  check_plan wanted = plan_check(t, gates);
  wanted.memory_limit_bytes = plan.memory_limit_bytes;
  const auto report = session_->check(*checked, *code, wanted);
  EXPECT_TRUE(report) << report.error().message;
  if (!report) return {outcome::quarantined, report.error().message, 0, {}, {}};
  found.checked = *report;
  const judgement j = judge(t, wanted, *report, gates);
  found.result = j.result;
  found.reason = j.reason;
  if (j.result == outcome::correct && plan.forks > 0) {
    auto timed = check_and_time(*session_, {t, *checked, *code}, wanted, {plan, 0}, gates);
    EXPECT_TRUE(timed) << timed.error().message;
    if (timed) found.timed = std::move(*timed);
    if (found.timed.problem) {
      found.result = found.timed.problem->kind;
      found.reason = found.timed.problem->reason;
    } else if (!found.timed.inconsistency.empty()) {
      found.result = outcome::inconsistent;
      found.reason = found.timed.inconsistency;
    }
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  found.milliseconds = took.count();
  return found;
}

timing_report gpu_session_test::measure_again(const task& t, const timing_plan& plan, int first_fork) {
  const compiled_code none;
  auto timed = check_and_time(*session_, {t, t.reference, none}, plan_check(t, {}), {plan, first_fork}, {});
  EXPECT_TRUE(timed) << timed.error().message;
  if (timed) return std::move(*timed);
  timing_report failed;
  failed.problem = fault{outcome::quarantined, timed.error().message};
  return failed;
}

}  // namespace cudal1
