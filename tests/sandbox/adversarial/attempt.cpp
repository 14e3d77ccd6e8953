#include "attempt.hpp"

#include <algorithm>

#include "config/base/describe.hpp"
#include "sandbox/verify/profiler.hpp"
#include "sandbox/verify/timing_draws.hpp"

namespace cudal1::testing_adversarial {

task make_task(const std::string& inputs, const std::string& steps, const std::string& outputs) {
  const std::string text =
      fmt::format(R"({{"format":1,"name":"t","summary":"t","family":"test","inputs":[{}],"weights":[],"steps":[{}],)"
                  R"("outputs":[{}]}})",
                  inputs, steps, outputs);
  auto t = read_task(text, "cpu");
  if (!t) throw std::runtime_error(t.error().message + ": " + text);
  return *t;
}

task relu_of_positive(int64_t elements) {
  return make_task(fmt::format(R"({{"name":"a","dtype":"float32","shape":[{}],"draw":{{"distribution":"uniform",)"
                               R"("low":0,"high":1}}}})",
                               elements),
                   R"({"aten":"aten::relu","args":{"self":"a"},"out":["y"]})", R"("y")");
}

namespace {

std::string normal_matrix(const char* name, int64_t rows, int64_t columns) {
  return fmt::format(
      R"({{"name":"{}","dtype":"float32","shape":[{},{}],"draw":{{"distribution":"normal","mean":0,"std":1}}}})", name,
      rows, columns);
}

}  // namespace

task row_sum(int64_t rows, int64_t columns) {
  return make_task(normal_matrix("a", rows, columns),
                   R"({"aten":"aten::sum.dim_IntList","args":{"self":"a","dim":[1]},"out":["y"]})", R"("y")");
}

task softmax(int64_t rows, int64_t columns) {
  return make_task(normal_matrix("a", rows, columns),
                   R"({"aten":"aten::softmax.int","args":{"self":"a","dim":-1},"out":["y"]})", R"("y")");
}

task matmul(int64_t m, int64_t k, int64_t n) {
  return make_task(normal_matrix("a", m, k) + "," + normal_matrix("b", k, n),
                   R"({"aten":"aten::matmul","args":{"self":"a","other":"b"},"out":["y"]})", R"("y")");
}

std::string one_kernel(const task& t, launch_shape shape, const std::string& source) {
  std::string inputs, allocs, args, outputs;
  const auto add = [](std::string& list, const std::string& item) { list += (list.empty() ? "" : ",") + item; };
  const auto shape_of = [](const tensor_type& type) { return fmt::format("[{}]", fmt::join(type.shape, ",")); };
  for (const auto& d : t.reference.text.inputs) {
    add(inputs,
        fmt::format(R"({{"name":"{}","dtype":"{}","shape":{}}})", d.name, name_of(d.type.type), shape_of(d.type)));
    add(args, fmt::format(R"({{"in":"{}"}})", d.name));
  }
  for (const auto& name : t.reference.text.outputs) {
    const tensor_type& type = t.reference.types.at(name);
    allocs += fmt::format(R"({{"alloc":"{}","dtype":"{}","shape":{}}},)", name, name_of(type.type), shape_of(type));
    add(args, fmt::format(R"({{"out":"{}"}})", name));
    add(outputs, "\"" + name + "\"");
  }
  return fmt::format(R"({{"format":1,"name":"v","inputs":[{}],"steps":[{}{{"launch":"k","grid":[{},1,1],)"
                     R"("block":[{},1,1],"args":[{}]}}],"outputs":[{}]}})"
                     "\n---\n{}\n",
                     inputs, allocs, shape.grid, shape.block, args, outputs, source);
}

std::ostream& operator<<(std::ostream& out, const finding& f) {
  return out << enum_name(f.result) << " (" << f.stage << "): " << f.reason;
}

void adversarial_test::SetUpTestSuite() {
  session_options options;
  options.device = "cpu";
  options.worker = CUDAL1_TEST_WORKER;
  options.flush_bytes = 1 << 20;
  auto started = device_session::start(options);
  ASSERT_TRUE(started) << started.error().message;
  session = std::move(*started);
  auto made = host_compiler::create({});
  ASSERT_TRUE(made) << made.error().message;
  compiler = std::move(*made);
}

void adversarial_test::TearDownTestSuite() {
  session.reset();
  compiler.reset();
}

namespace {

finding refused_by_compiler(const error& e) {
  switch (e.code) {
    case errc::refused:
    case errc::unsupported:
      return {outcome::refused, e.message, "compiler"};
    case errc::timeout:
      return {outcome::compile_timeout, e.message, "compiler"};
    default:
      return {outcome::compile_error, e.message, "compiler"};
  }
}

}  // namespace

finding adversarial_test::evaluate(const task& t, const checked_program& program, const compiled_code& code,
                                   double call_limit_ms) {
  verification_options gates;
  gates.call_limit_ms = call_limit_ms;
  gates.memory_limit_mb = 256;
  const auto infrastructure = [](const error& e) { return finding{outcome::quarantined, e.message, "infrastructure"}; };
  if (const auto opened = session->open_task(t); !opened) return infrastructure(opened.error());
  const check_plan plan = plan_check(t, gates);
  const auto report = session->check(program, code, plan);
  if (!report) return infrastructure(report.error());
  const judgement j = judge(t, plan, *report, gates);
  if (j.result != outcome::correct) return {j.result, j.reason, "check"};
  const timing_plan pairs{
      .forks = 1, .pairs = 5, .call_limit_ms = call_limit_ms, .memory_limit_bytes = int64_t{256} << 20};
  const auto timed = check_and_time(*session, {t, program, code}, plan, {pairs, 0}, gates);
  if (!timed) return infrastructure(timed.error());
  if (timed->problem) return {timed->problem->kind, timed->problem->reason, "timing"};
  if (!timed->inconsistency.empty()) return {outcome::inconsistent, timed->inconsistency, "timing"};
  if (timed->samples.size() != 5) return {outcome::unmeasurable, "no samples", "timing"};
  const timing_estimate e = estimate_timing(timed->samples);
  return {outcome::correct, j.reason, "timing", e.reference_us, e.variant_us};
}

finding adversarial_test::evaluate(const task& t, const std::string& program, double call_limit_ms) {
  const auto checked = check_program_text(program);
  if (!checked) return {outcome::invalid, checked.error().message, "program"};
  const auto code = compiler->compile(*checked);
  if (!code) return refused_by_compiler(code.error());
  return evaluate(t, *checked, *code, call_limit_ms);
}

void adversarial_test::expect_all(const std::vector<attempt>& attempts, double call_limit_ms) {
  for (const auto& a : attempts) {
    SCOPED_TRACE(a.name);
    const finding f = evaluate(a.of, one_kernel(a.of, a.shape, a.source), call_limit_ms);
    EXPECT_TRUE(std::ranges::count(a.wanted, f.result)) << f;
    EXPECT_NE(f.reason.find(a.words), std::string::npos) << f;
    std::cout << "  " << a.name << ": " << f << '\n';
  }
}

}  // namespace cudal1::testing_adversarial
