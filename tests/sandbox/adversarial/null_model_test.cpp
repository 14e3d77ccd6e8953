// Null models: every task must refuse them, or say why it does not.
#include "attempt.hpp"
#include <gmock/gmock.h>

#include "sandbox/verify/null_models.hpp"
#include "sandbox/verify/timing_draws.hpp"

namespace cudal1::testing_adversarial {
namespace {

class null_models : public adversarial_test {
 protected:
  static null_report report_of(const task& t) {
    EXPECT_TRUE(session->open_task(t));
    const auto report = check_null_models(*session, t, plan_check(t, {}), {});
    EXPECT_TRUE(report) << report.error().message;
    return report.value_or(null_report{});
  }
  static std::vector<std::string> names_of(const task& t) {
    std::vector<std::string> names;
    for (const auto& m : null_models_of(t, 0.5))
      names.push_back(m.name);
    return names;
  }
};

TEST_F(null_models, are_zeros_a_constant_the_inputs_half_of_each_dimension_and_the_previous_answer) {
  EXPECT_EQ(names_of(softmax(8, 16)),
            (std::vector<std::string>{"zeros", "the constant 0.5", "the input a", "half of a along dimension 0",
                                      "half of a along dimension 1", "the previous draw's answer"}));
  EXPECT_EQ(names_of(row_sum(8, 1)),
            (std::vector<std::string>{"zeros", "the constant 0.5", "the input a", "half of a along dimension 0",
                                      "the previous draw's answer"}));
}

TEST_F(null_models, fail_on_tasks_whose_draws_are_strong_enough) {
  for (const task& t : {relu_of_positive(), row_sum(16, 4096), softmax(16, 256), matmul(16, 32, 24)}) {
    const null_report r = report_of(t);
    EXPECT_TRUE(r.passed.empty()) << fmt::format("{}", fmt::join(r.passed, ", "));
    EXPECT_TRUE(r.gate().passed);
    EXPECT_GE(r.checked, 4);
  }
}

// 1 everywhere, which no rule of constant_result.hpp sees.
task saturated() {
  return make_task(R"({"name":"a","dtype":"float32","shape":[8,64]})",
                   R"({"aten":"aten::abs","args":{"self":"a"},"out":["b"]},)"
                   R"({"aten":"aten::add.Scalar","args":{"self":"b","other":3},"out":["c"]},)"
                   R"({"aten":"aten::clamp","args":{"self":"c","min":0,"max":1},"out":["y"]})",
                   R"("y")");
}

TEST_F(null_models, that_pass_leave_a_task_unexplained_until_it_says_why) {
  task t = saturated();
  null_report r = report_of(t);
  EXPECT_THAT(r.passed, testing::Contains("the constant 1"));
  EXPECT_TRUE(r.is_unexplained());
  EXPECT_FALSE(r.gate().passed);
  EXPECT_NE(r.gate().reason.find("\"explanation\""), std::string::npos) << r.gate().reason;
  const auto explained =
      read_task(R"({"explanation":"the clamp makes every element 1",)" + canonical_text(t).substr(1), "cpu");
  ASSERT_TRUE(explained) << explained.error().message;
  EXPECT_EQ(explained->id, t.id);
  r = report_of(*explained);
  EXPECT_FALSE(r.is_unexplained());
  EXPECT_TRUE(r.gate().passed);
  EXPECT_NE(r.gate().reason.find("the clamp makes every element 1"), std::string::npos) << r.gate().reason;
}

TEST_F(null_models, that_pass_are_explained_by_a_proof) {
  const task constant = make_task(R"({"name":"a","dtype":"float32","shape":[64,1]})",
                                  R"({"aten":"aten::softmax.int","args":{"self":"a","dim":1},"out":["y"]})", R"("y")");
  const task zero = make_task(R"({"name":"a","dtype":"float32","shape":[64,1]})",
                              R"({"aten":"aten::mean.dim","args":{"self":"a","dim":[1],"keepdim":true},"out":["m"]},)"
                              R"({"aten":"aten::sub.Tensor","args":{"self":"a","other":"m"},"out":["d"]},)"
                              R"({"aten":"aten::gelu","args":{"self":"d"},"out":["y"]})",
                              R"("y")");
  const task clamped = make_task(R"({"name":"a","dtype":"float32","shape":[64,8]})",
                                 R"({"aten":"aten::clamp_max","args":{"self":"a","max":0.0},"out":["m"]},)"
                                 R"({"aten":"aten::clamp","args":{"self":"m","min":0.0,"max":1.0},"out":["y"]})",
                                 R"("y")");
  for (const task& t : {constant, zero, clamped}) {
    const null_report r = report_of(t);
    EXPECT_FALSE(r.passed.empty());
    EXPECT_FALSE(r.is_unexplained());
    EXPECT_NE(r.explanation.find("constant"), std::string::npos) << r.explanation;
  }
}

TEST_F(null_models, that_pass_an_input_are_explained_where_the_result_is_one) {
  const task dropped = make_task(R"({"name":"a","dtype":"float32","shape":[64,8]})",
                                 R"({"aten":"aten::dropout","args":{"input":"a","p":0.5,"train":false},"out":["d"]},)"
                                 R"({"aten":"aten::clone","args":{"self":"d"},"out":["y"]})",
                                 R"("y")");
  const null_report r = report_of(dropped);
  EXPECT_THAT(r.passed, testing::Contains("the input a"));
  EXPECT_FALSE(r.is_unexplained());
  EXPECT_NE(r.explanation.find("equals an input"), std::string::npos) << r.explanation;
}

// |x| / 0 is infinite, but NaN where x is 0: what passes there is a matter of the draws. x / 0 * 0 is NaN for all x.
TEST_F(null_models, are_explained_by_no_rule_that_forgets_zero_and_infinity) {
  const task infinite = make_task(R"({"name":"a","dtype":"float32","shape":[64,8]})",
                                  R"({"aten":"aten::abs","args":{"self":"a"},"out":["b"]},)"
                                  R"({"aten":"aten::div.Scalar","args":{"self":"b","other":0},"out":["y"]})",
                                  R"("y")");
  EXPECT_EQ(explanation_of(infinite), "");
  const task nothing = make_task(R"({"name":"a","dtype":"float32","shape":[64,8]})",
                                 R"({"aten":"aten::div.Scalar","args":{"self":"a","other":0},"out":["b"]},)"
                                 R"({"aten":"aten::mul.Scalar","args":{"self":"b","other":0},"out":["y"]})",
                                 R"("y")");
  EXPECT_NE(explanation_of(nothing).find("constant"), std::string::npos) << "NaN everywhere";
}

TEST_F(null_models, a_check_on_fresh_draws_refuses_what_knows_the_first_ones) {
  const task relu = relu_of_positive();
  const auto right = check_program_text(one_kernel(relu, {16, 256},
                                                   "__global__ void k(const float* a, float* y) { int i = blockIdx.x * "
                                                   "256 + threadIdx.x; y[i] = a[i] > 0 ? a[i] : 0; }"));
  const auto wrong = check_program_text(one_kernel(relu, {16, 256},
                                                   "__global__ void k(const float* a, float* y) { int i = blockIdx.x * "
                                                   "256 + threadIdx.x; y[i] = a[i] > -9 ? a[i] : 0; }"));
  ASSERT_TRUE(right && wrong);
  ASSERT_TRUE(session->open_task(relu));
  const check_plan plan = plan_check(relu, {});
  for (const auto* p : {&*right, &*wrong}) {
    const auto code = compiler->compile(*p);
    ASSERT_TRUE(code) << code.error().message;
    const auto j = check_on_fresh_draws(*session, {relu, *p, *code}, plan, {});
    ASSERT_TRUE(j) << j.error().message;
    EXPECT_EQ(j->result == outcome::correct, p == &*right) << j->reason;
    if (p == &*right) {
      EXPECT_NE(j->reason.find(fmt::format("{} draws", 3 * plan.draws.size())), std::string::npos) << j->reason;
    }
  }
}

}  // namespace
}  // namespace cudal1::testing_adversarial
