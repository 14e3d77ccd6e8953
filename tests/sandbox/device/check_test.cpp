// Reports of checks of correct and wrong variants.
#include <chrono>
#include <cstdio>
#include <set>

#include "native_object.hpp"

#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1::testing_device {
namespace {

class check_test : public device_test {
 protected:
  // Compiles the program, whose answers are the reference's.
  void expect_exact(const std::string& text) {
    const auto compiler = host_compiler::create({});
    ASSERT_TRUE(compiler) << compiler.error().message;
    const auto p = check_program_text(text);
    ASSERT_TRUE(p) << p.error().message;
    const auto code = (*compiler)->compile(*p);
    ASSERT_TRUE(code) << code.error().message;
    const auto report = session->check(*p, *code, short_plan());
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_FALSE(report->problem) << report->problem->reason;
    EXPECT_EQ(report->draws.at(2).outputs.at(0).max_absolute, 0);
  }
};

TEST_F(check_test, a_session_reports_its_confinement_and_its_machine) {
  const auto& report = session->report();
  EXPECT_EQ(missing_confinement(report.confinement), "");
  EXPECT_FALSE(report.where.model.empty());
  EXPECT_NE(report.where.details.find("LibTorch 2."), std::string::npos) << report.where.details;
  EXPECT_EQ(report.where.id.size(), 64U);
  RecordProperty("start_ms", std::to_string(report.start_ms));
}

TEST_F(check_test, a_correct_variant_passes_every_gate_on_every_kind_of_draw) {
  const verification_options gates;
  const task t = relu_task(elements);
  const check_plan plan = plan_check(t, gates);
  const auto report = check(native(relu_loop, elements), plan);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->draws.size(), plan.draws.size());
  std::set<uint64_t> seeds;
  for (const auto& d : report->draws)
    seeds.insert(d.draw.seed);
  EXPECT_EQ(seeds.size(), plan.draws.size()) << "each draw has a different seed";
  EXPECT_FALSE(seeds.contains(0));
  const judgement j = judge(t, plan, *report, gates);
  EXPECT_EQ(j.result, outcome::correct) << j.reason;
}

// sin(factor * a): a unit in the last place of the factor's product moves the result by a part of that product's size.
TEST_F(check_test, a_task_that_makes_rounding_errors_grow_is_found_ill_conditioned) {
  const auto judged = [](const char* factor) {
    const std::string text = fmt::format(
        R"({{"format":1,"name":"t","summary":"t","family":"t","inputs":[{{"name":"a","dtype":"float32","shape":[4096],)"
        R"("draw":{{"distribution":"normal"}}}}],"weights":[],"steps":[{{"aten":"aten::mul.Scalar","args":)"
        R"({{"self":"a","other":{}}},"out":["x"]}},{{"aten":"aten::sin","args":{{"self":"x"}},"out":["y"]}}],)"
        R"("outputs":["y"]}})",
        factor);
    const auto t = read_task(text, "cpu");
    EXPECT_TRUE(t) << t.error().message;
    EXPECT_TRUE(session->open_task(*t));
    const verification_options gates;
    const check_plan plan = plan_check(*t, gates);
    const auto report = session->check(t->reference, {}, plan);
    EXPECT_TRUE(report) << report.error().message;
    return judge(*t, plan, *report, gates);
  };
  EXPECT_EQ(judged("3.0").ill_conditioned, "");
  const judgement grown = judged("1000003.0");
  EXPECT_EQ(grown.result, outcome::correct) << grown.reason;
  EXPECT_NE(grown.ill_conditioned.find("the task's own y in float32 differs from the exact result by "),
            std::string::npos);
  std::printf("%s\n", grown.ill_conditioned.c_str());
}

TEST_F(check_test, the_tasks_own_program_passes) {
  const auto report = session->check(relu_task(elements).reference, {}, short_plan());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->problem);
  for (const auto& d : report->draws)
    EXPECT_EQ(d.outputs.at(0).max_absolute, 0);
  EXPECT_TRUE(report->repeatable);
}

TEST_F(check_test, a_forgotten_task_is_opened_again_with_other_draws) {
  const task t = relu_task(elements);
  ASSERT_TRUE(session->open_task(t));
  const auto before = session->check(t.reference, {}, short_plan());
  ASSERT_TRUE(before) << before.error().message;
  ASSERT_TRUE(session->forget_tasks());
  const auto after = session->check(t.reference, {}, short_plan());
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_FALSE(after->problem);
  EXPECT_NE(after->draws.at(0).draw.seed, before->draws.at(0).draw.seed);
}

TEST_F(check_test, a_compiled_cuda_kernel_passes) {
  expect_exact(
      R"({"format":1,"name":"relu","inputs":[{"name":"a","dtype":"float32","shape":[4096]}],"steps":[{"alloc":"y",)"
      R"("dtype":"float32","shape":[4096]},{"launch":"relu","grid":[16,1,1],"block":[256,1,1],"args":[{"in":"a"},)"
      R"({"out":"y"},{"i32":4096}]}],"outputs":["y"]})"
      "\n---\n__global__ void relu(const float* a, float* y, int n) {\n"
      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = a[i] > 0.0f ? a[i] : 0.0f;\n}\n");
}

// Each block copies the elements of the other block of its cluster, and takes its own from there.
TEST_F(check_test, a_kernel_of_clusters_and_asynchronous_copies_passes) {
  expect_exact(
      R"({"format":1,"name":"relu","inputs":[{"name":"a","dtype":"float32","shape":[4096]}],"steps":[{"alloc":"y",)"
      R"("dtype":"float32","shape":[4096]},{"launch":"relu","grid":[16,1,1],"block":[256,1,1],"args":[{"in":"a"},)"
      R"({"out":"y"}]}],"outputs":["y"]})"
      "\n---\n__global__ void __cluster_dims__(2, 1, 1) relu(const float* a, float* y) {\n"
      "  __shared__ float s[256];\n  const int t = threadIdx.x, block = blockIdx.x;\n"
      "  copy_async<4>(s + t, a + (block ^ 1) * 256 + t, true);\n  copy_async_commit();\n  copy_async_wait<0>();\n"
      "  cluster_sync();\n  y[block * 256 + t] = fmaxf(load_cluster(s + t, cluster_rank() ^ 1), 0.0f);\n"
      "  cluster_sync();\n}\n");
}

TEST_F(check_test, a_wrong_answer_shows_in_the_output_check) {
  const auto report = check(native("for (long i = 0; i < n; ++i) y[i] = a[i];", elements));
  ASSERT_TRUE(report) << report.error().message;
  const output_check& o = report->draws.at(0).outputs.at(0);
  EXPECT_EQ(o.name, "y");
  EXPECT_NEAR(static_cast<double>(o.outside), elements / 2.0, elements / 10.0);
  EXPECT_GT(o.error, 0.1);
  EXPECT_LT(o.worst_value, 0);
  EXPECT_EQ(o.worst_expected, 0);
}

TEST_F(check_test, an_unwritten_output_holds_no_earlier_output) {
  const auto report = check(native("", elements));
  ASSERT_TRUE(report) << report.error().message;
  for (const auto& d : report->draws)
    EXPECT_GT(d.outputs.at(0).outside + d.outputs.at(0).mask_mismatches, elements / 4);
}

TEST_F(check_test, another_shape_or_dtype_is_a_type_problem) {
  const auto p = check_program_text(
      R"({"format":1,"name":"flat","inputs":[{"name":"a","dtype":"float32","shape":[4096]}],"steps":[)"
      R"({"aten":"aten::relu","args":{"self":"a"},"out":["r"]},)"
      R"({"aten":"aten::unsqueeze","args":{"self":"r","dim":0},"out":["y"]}],"outputs":["y"]})");
  ASSERT_TRUE(p) << p.error().message;
  const auto report = session->check(*p, {}, short_plan());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_NE(report->draws.at(0).outputs.at(0).type_problem.find("should be float32[4096]"), std::string::npos)
      << report->draws.at(0).outputs.at(0).type_problem;
}

// Native code that keeps state from call to call: an output, the number of calls, where the last output was. The object
// rules would refuse its variables.
TEST_F(check_test, what_keeps_state_in_variables_writes_outside_the_tensors) {
  for (const char* keeps :
       {"static float kept[4096]; static bool have;"
        "if (!have) { for (long i = 0; i < n; ++i) kept[i] = a[i] > 0 ? a[i] : 0; have = true; }"
        "for (long i = 0; i < n; ++i) y[i] = kept[i];",
        "static int calls; ++calls;"
        "for (long i = 0; i < n; ++i) y[i] = a[i] > 0 ? a[i] * (1 + calls * 1e-6f) : 0;",
        "static float* before; static bool have;"
        "if (have) { for (long i = 0; i < n; ++i) y[i] = before[i]; }"
        "else { for (long i = 0; i < n; ++i) y[i] = a[i] > 0 ? a[i] : 0; before = y; have = true; }"}) {
    const auto report = check(native(keeps, elements));
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_TRUE(report->problem) << keeps;
    EXPECT_EQ(report->problem->kind, outcome::out_of_bounds) << keeps;
    EXPECT_NE(report->problem->reason.find("a write outside every tensor"), std::string::npos)
        << report->problem->reason;
  }
}

// LibTorch's operators make no system call for which the filter would kill a runner.
TEST_F(check_test, the_program_of_every_built_in_task_runs_in_a_runner) {
  const auto folder = builtin_task_folder();
  ASSERT_TRUE(folder) << folder.error().message;
  const auto tasks = load_tasks(*folder, "cpu");
  ASSERT_TRUE(tasks) << tasks.error().message;
  EXPECT_GE(tasks->size(), 16U);
  check_plan plan;
  plan.draws.resize(1);
  plan.memory_limit_bytes = int64_t{1} << 30;
  for (const auto& t : *tasks) {
    const auto opened = session->open_task(t);
    ASSERT_TRUE(opened) << t.name << ": " << opened.error().message;
    const auto report = session->check(t.reference, {}, plan);
    ASSERT_TRUE(report) << t.name << ": " << report.error().message;
    EXPECT_FALSE(report->problem) << t.name << ": " << report->problem->reason;
    EXPECT_TRUE(report->repeatable) << t.name;
  }
}

TEST_F(check_test, a_small_check_is_quick) {
  const compiled_code right = native(relu_loop, elements);
  ASSERT_TRUE(check(right));
  double best = 1e9, load = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto report = check(right);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(report);
    if (took.count() < best) best = took.count(), load = report->load_ms;
  }
  std::printf("check of 3 draws: %.1f ms, of which fork to ready %.1f ms\n", best, load);
  EXPECT_LT(best, 1000);
}

}  // namespace
}  // namespace cudal1::testing_device
