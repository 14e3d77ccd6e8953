#include "sandbox/verify/verifier.hpp"

#include <limits>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"

namespace cudal1 {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

task make_task(const std::string& inputs, const std::string& op, const std::string& arguments) {
  auto t = read_task("{\"format\": 1, \"name\": \"t\", \"summary\": \"s\", \"family\": \"f\", \"inputs\": [" + inputs +
                         "], \"steps\": [{\"aten\": \"" + op + "\", \"args\": " + arguments +
                         ", \"out\": [\"y\"]}], \"outputs\": [\"y\"]}",
                     "cpu");
  if (!t) ADD_FAILURE() << t.error().message;
  return t.value_or(task{});
}

std::string input(const std::string& type, const std::string& shape, const std::string& rest) {
  return "{\"name\": \"x\", \"dtype\": \"" + type + "\", \"shape\": " + shape + ", " + rest + "}";
}

task relu(const std::string& type = "float32") {
  return make_task(input(type, "[4, 8]", "\"draw\": {\"distribution\": \"normal\"}"), "aten::relu",
                   "{\"self\": \"x\"}");
}

// The referee's report for a variant that is as accurate as eager.
check_report honest(const task& t, const check_plan& plan) {
  check_report r;
  for (const auto& d : plan.draws) {
    draw_check c;
    c.draw = {d.kind, 77};
    output_check o;
    o.name = "y";
    o.elements = t.reference.types.at("y").numel();
    o.max_absolute = is_floating(t.reference.types.at("y").type) ? 1e-6 : 0;
    o.error = o.reference_error = o.strict_error = 1e-7;
    o.signal_error = o.reference_signal_error = o.strict_signal_error = 2e-7;
    o.worst_index = 11;
    o.worst_value = 1.5;
    o.worst_expected = 1.25;
    c.outputs = {o};
    r.draws.push_back(c);
  }
  return r;
}

struct verifier : testing::Test {
  verification_options options;
  task t = relu();
  check_plan plan = plan_check(t, options);
  check_report report = honest(t, plan);
  output_check& first() { return report.draws[0].outputs[0]; }
  output_check& last() { return report.draws.back().outputs[0]; }
  judgement judged() const { return judge(t, plan, report, options); }
  void use(task other) {
    t = std::move(other);
    plan = plan_check(t, options);
    report = honest(t, plan);
  }
  // The gate that decided.
  std::string failed_gate() const {
    const auto j = judged();
    EXPECT_EQ(j.result, outcome::wrong_answer) << j.reason;
    return j.gates.empty() ? "" : j.gates.back().gate;
  }
};

TEST_F(verifier, a_task_whose_own_result_is_far_from_the_exact_one_is_ill_conditioned) {
  EXPECT_EQ(judged().ill_conditioned, "");
  last().reference_error = 0.5;
  last().reference_outside_loose = 3;
  EXPECT_EQ(judged().ill_conditioned, "") << "on a distribution that is not the task's own";
  first().reference_error = first().strict_error = 0.012;
  EXPECT_NE(judged().ill_conditioned, "");
  report.draws[1].outputs[0].reference_error = 1.08;
  report.draws[1].outputs[0].reference_outside_loose = 30;
  EXPECT_EQ(judged().ill_conditioned,
            "the task's own y in float32 differs from the exact result by 108% (root mean square); 30 of 32 "
            "elements differ by more than 1e-2");
  report = honest(t, plan);
  first().reference_outside_loose = 1;
  EXPECT_NE(judged().ill_conditioned, "") << "KernelBench's tolerance is for each element";
  report = honest(t, plan);
  first().error = first().reference_error = first().strict_error = 3e8;
  EXPECT_EQ(judged().ill_conditioned, "") << "the exact result is zero, and eager's is nothing but rounding";
  use(relu("bfloat16"));
  first().reference_error = first().strict_error = 0.02;
  EXPECT_EQ(judged().ill_conditioned, "") << "the type's own rounding is as large";
}

TEST_F(verifier, kernelbenchs_tolerance_has_no_exception_for_eagers_own_error) {
  const auto with_inexact_eager = [&](const std::string& type) {
    use(type == "int32"
            ? make_task(input(type, "[4, 8]", R"("draw": {"distribution": "integer", "low": 0, "high": 9})"),
                        "aten::relu", R"({"self": "x"})")
            : relu(type));
    for (auto& d : report.draws) {
      d.outputs[0].loose = true;
      d.outputs[0].outside = d.outputs[0].reference_outside = d.outputs[0].reference_outside_loose = 2;
    }
  };
  for (const auto* type : {"float32", "bfloat16", "int32"}) {
    options.tolerance = "own";
    with_inexact_eager(type);
    EXPECT_FALSE(plan.eager_alone);
    EXPECT_EQ(judged().result, outcome::correct) << type << ": " << judged().reason;
    options.tolerance = "kernelbench";
    with_inexact_eager(type);
    EXPECT_TRUE(plan.eager_alone);
    EXPECT_EQ(failed_gate(), "2 close") << type;
  }
  with_inexact_eager("float32");
  for (auto& d : report.draws)
    if (d.draw.kind == draw_kind::declared) d.outputs[0].outside = 0;
  EXPECT_EQ(judged().result, outcome::correct) << "KernelBench has no other draws: " << judged().reason;
}

// A network of so many matrix products, one behind the other.
task products(int count, const std::string& type = "float32") {
  std::string steps, last = "x";
  for (int i = 1; i <= count; ++i) {
    const std::string next = i == count ? "y" : fmt::format("h{}", i);
    steps += fmt::format(R"({}{{"aten":"aten::mm","args":{{"self":"{}","mat2":"w"}},"out":["{}"]}})", i > 1 ? "," : "",
                         last, next);
    last = next;
  }
  const auto tensor = [&](const char* name) {
    return fmt::format(R"({{"name":"{}","dtype":"{}","shape":[8,8],"draw":{{"distribution":"normal"}}}})", name, type);
  };
  auto t = read_task(fmt::format(R"({{"format":1,"name":"t","summary":"s","family":"f","inputs":[{},{}],)"
                                 R"("steps":[{}],"outputs":["y"]}})",
                                 tensor("x"), tensor("w"), steps),
                     "cpu");
  if (!t) ADD_FAILURE() << t.error().message;
  return t.value_or(task{});
}

TEST_F(verifier, strict_precision_allows_no_multiple_of_eagers_error_with_tf32) {
  const auto with_tf32 = [&](const char* tolerance) {
    options.tolerance = tolerance;
    use(products(1));
    for (auto& d : report.draws) {
      output_check& o = d.outputs[0];
      o.error = 4e-4;
      o.reference_error = 3e-4;
      o.signal_error = o.reference_signal_error = 1e-3;
    }
  };
  with_tf32("own");
  EXPECT_EQ(judged().result, outcome::correct) << judged().reason;
  with_tf32("strict");
  EXPECT_EQ(failed_gate(), "3 error");
  EXPECT_NE(judged().reason.find("eager's is 1e-07, and 5e-06 is allowed"), std::string::npos) << judged().reason;
  for (auto& d : report.draws)
    d.outputs[0].error = 3e-6;
  EXPECT_EQ(judged().result, outcome::correct) << "as exact as float32 eager: " << judged().reason;
  for (auto& d : report.draws) {
    d.outputs[0].signal_error = 0.03;
    d.outputs[0].reference_signal_error = 0.02;
  }
  EXPECT_EQ(failed_gate(), "4 signal");
}

TEST_F(verifier, half_precision_is_accepted_of_products_in_float32_alone) {
  const auto judged_at = [&](double error) {
    for (auto& d : report.draws) {
      d.outputs[0].error = error;
      d.outputs[0].signal_error = 0.05;
    }
    return judged().result;
  };
  const double one_product = 0x1p-10, of_half = 0.3 * one_product, of_bfloat16 = 2.4 * one_product;
  use(products(1));
  EXPECT_EQ(judged_at(of_half), outcome::wrong_answer) << "unless it is asked for";
  options.tolerance = "half";
  use(products(1));
  EXPECT_TRUE(plan.sized);
  EXPECT_EQ(plan.close.absolute, 1e-2);
  EXPECT_EQ(judged_at(of_half), outcome::correct) << judged().reason;
  EXPECT_EQ(judged_at(0.99 * one_product), outcome::correct) << judged().reason;
  EXPECT_EQ(judged_at(1.01 * one_product), outcome::wrong_answer);
  EXPECT_EQ(judged_at(of_bfloat16), outcome::wrong_answer);
  use(products(4));
  EXPECT_EQ(judged_at(1.99 * one_product), outcome::correct) << "errors of four products add up by their squares";
  EXPECT_EQ(judged_at(of_bfloat16 * 2), outcome::wrong_answer);
  // Sums that cancel, say: eager's error is larger, too.
  use(products(1));
  for (auto& d : report.draws) {
    output_check& o = d.outputs[0];
    if (d.draw.kind == draw_kind::declared) continue;
    o.within = {1e-2 * 30, 1e-2};
    o.outside = 2;
    o.max_absolute = 1.2;
    o.error = 7e-3;
    o.strict_error = o.reference_error = 9e-7;
  }
  EXPECT_EQ(judged().result, outcome::correct) << judged().reason;
  last().max_absolute = 4;
  EXPECT_EQ(failed_gate(), "5 draws") << "one element is further off than rounding takes it";
  last().max_absolute = 1.2;
  first().outside = 2;
  EXPECT_EQ(failed_gate(), "2 close");
  use(relu());
  EXPECT_FALSE(plan.sized);
  EXPECT_EQ(judged_at(of_half), outcome::wrong_answer) << "nothing but products may be in half precision";
  use(products(1, "bfloat16"));
  EXPECT_FALSE(plan.sized) << "a half type has its own tolerance";
}

TEST_F(verifier, plans_five_declared_draws_and_one_of_every_other_kind) {
  std::multiset<draw_kind> kinds;
  for (const auto& d : plan.draws) {
    kinds.insert(d.kind);
    EXPECT_EQ(d.seed, 0u);
  }
  EXPECT_EQ(kinds.count(draw_kind::declared), 5u);
  EXPECT_EQ(kinds.size(), 17u);
  EXPECT_EQ(std::set(kinds.begin(), kinds.end()).size(), 13u);
  EXPECT_EQ(plan.close.absolute, 1e-4);
  EXPECT_EQ(plan.close_loose.relative, 1e-2);
  EXPECT_EQ(plan.memory_limit_bytes, int64_t{2048} << 20);
}

TEST_F(verifier, plans_no_distribution_that_the_inputs_cannot_have) {
  const auto kinds = [&](const task& other) {
    std::set<draw_kind> out;
    for (const auto& d : plan_check(other, options).draws)
      out.insert(d.kind);
    return out;
  };
  EXPECT_EQ(kinds(make_task(input("int64", "[8]", "\"draw\": {\"distribution\": \"integer\", \"low\": 0, \"high\": 9}"),
                            "aten::neg", "{\"self\": \"x\"}")),
            std::set{draw_kind::declared});
  EXPECT_EQ(kinds(make_task(input("float32", "[8]", "\"draw\": {\"distribution\": \"bernoulli\"}"), "aten::neg",
                            "{\"self\": \"x\"}")),
            std::set{draw_kind::declared});
  const auto vector = kinds(
      make_task(input("float32", "[8]", "\"draw\": {\"distribution\": \"normal\"}"), "aten::neg", "{\"self\": \"x\"}"));
  EXPECT_TRUE(vector.contains(draw_kind::peaked));
  EXPECT_FALSE(vector.contains(draw_kind::offset_rows)) << "one row only";
}

TEST_F(verifier, plans_small_integers_where_they_stay_integers_and_impulses_where_the_task_is_linear) {
  const auto planned = [&](const std::string& inputs, const std::string& op, const std::string& arguments) {
    std::set<draw_kind> out;
    for (const auto& d : plan_check(make_task(inputs, op, arguments), options).draws)
      out.insert(d.kind);
    return std::pair(out.contains(draw_kind::small_integers), out.contains(draw_kind::impulses));
  };
  const std::string matrix = input("float32", "[8, 8]", "\"draw\": {\"distribution\": \"normal\"}");
  const std::string images = input("float32", "[1, 2, 8, 8]", "\"draw\": {\"distribution\": \"normal\"}");
  const std::string filters =
      ", {\"name\": \"w\", \"dtype\": \"float32\", \"shape\": [2, 2, 3, 3], \"draw\": {\"distribution\": \"normal\"}}";
  using both = std::pair<bool, bool>;
  EXPECT_EQ(planned(matrix, "aten::mm", R"({"self": "x", "mat2": "x"})"), both(true, true));
  EXPECT_EQ(planned(matrix, "aten::sum.dim_IntList", R"({"self": "x", "dim": [1]})"), both(true, true));
  EXPECT_EQ(planned(matrix, "aten::mean.dim", R"({"self": "x", "dim": [1]})"), both(false, true));
  EXPECT_EQ(planned(images + filters, "aten::conv2d", R"({"input": "x", "weight": "w"})"), both(false, true))
      << "Winograd's algorithm is right";
  EXPECT_EQ(planned(matrix, "aten::softmax.int", R"({"self": "x", "dim": 1})"), both(false, false));
}

TEST_F(verifier, an_accurate_variant_passes_every_gate) {
  const auto j = judged();
  EXPECT_EQ(j.result, outcome::correct) << j.reason;
  ASSERT_EQ(j.gates.size(), 6u);
  for (const auto& g : j.gates) {
    EXPECT_TRUE(g.passed) << g.gate;
    EXPECT_FALSE(g.reason.empty()) << g.gate;
  }
  EXPECT_EQ(j.gates[4].gate, "5 draws");
}

TEST_F(verifier, a_fault_gives_its_own_outcome) {
  report.problem = fault{outcome::wrote_input, "SIGSEGV: a write into input x"};
  EXPECT_EQ(judged().result, outcome::wrote_input);
  EXPECT_EQ(judged().reason, "SIGSEGV: a write into input x");
}

TEST_F(verifier, the_form_must_be_right) {
  first().type_problem = "shape [4] and should be [4, 8]";
  EXPECT_EQ(failed_gate(), "1 form");
  EXPECT_NE(judged().reason.find("should be [4, 8]"), std::string::npos);
  first().type_problem.clear();
  first().mask_mismatches = 1;
  EXPECT_EQ(failed_gate(), "1 form") << "a NaN where there should be none";
  first().mask_mismatches = 0;
  first().elements = 31;
  EXPECT_EQ(failed_gate(), "1 form");
  report = honest(t, plan);
  report.draws[2].outputs.clear();
  EXPECT_EQ(failed_gate(), "1 form") << "an output is missing";
}

TEST_F(verifier, one_element_outside_fails_and_is_shown_with_its_place) {
  first().outside = 1;
  first().max_absolute = 0.25;
  first().max_excess = 0.2498;
  first().within = {0.5, 1e-4};
  EXPECT_EQ(failed_gate(), "2 close");
  const auto reason = judged().reason;
  EXPECT_NE(reason.find("y[1, 3] is 1.5 and should be 1.25"), std::string::npos) << reason;
  EXPECT_NE(reason.find("1 of 32"), std::string::npos) << reason;
  EXPECT_NE(reason.find("differ by more than 0.5 + 0.0001 |reference|, the worst by 0.2498 more"), std::string::npos)
      << reason;
}

TEST_F(verifier, the_loose_tolerance_applies_where_eager_fails_the_tight_one) {
  first().reference_outside = 3;
  first().loose = true;
  EXPECT_EQ(judged().result, outcome::correct);
  EXPECT_NE(judged().gates[1].reason.find("looser"), std::string::npos);
  first().outside = 1;
  EXPECT_EQ(failed_gate(), "2 close");
  first().reference_outside_loose = 1;
  EXPECT_EQ(judged().result, outcome::correct) << "eager is too inaccurate: gate 3 decides";
  first().error = 1e-3;
  EXPECT_EQ(failed_gate(), "3 error");
}

TEST_F(verifier, half_types_get_the_loose_tolerance_and_floor) {
  use(relu("float16"));
  first().loose = true;
  first().error = 9e-3;
  EXPECT_EQ(judged().result, outcome::correct) << judged().reason;
  first().error = first().signal_error = 9e9;  // garbage, though small
  EXPECT_EQ(failed_gate(), "3 error");
  first().error = first().signal_error = 1.1e9;
  first().outside = 1;
  EXPECT_EQ(failed_gate(), "2 close");
  first().outside = 0;
  first().error = 2e-2;
  EXPECT_EQ(failed_gate(), "3 error");
}

TEST_F(verifier, lower_precision_fails_gate_three_although_it_is_close) {
  first().error = 4.9e-6;
  EXPECT_EQ(judged().result, outcome::correct) << "below the floor";
  first().error = 5.1e-6;
  EXPECT_EQ(failed_gate(), "3 error");
  first().reference_error = first().strict_error = 1e-6;
  EXPECT_EQ(judged().result, outcome::correct) << "32 times eager's error";
  first().error = 33e-6;
  EXPECT_EQ(failed_gate(), "3 error");
  first().error = std::nan("");
  EXPECT_EQ(failed_gate(), "3 error");
}

// Were a constant right, the task could not be searched: null models pass.
TEST_F(verifier, no_multiple_of_a_large_error_lets_a_constant_pass) {
  // Eager in a half type, which is loose itself: gate 2 leaves the decision to gate 3.
  first().loose = true;
  first().reference_outside_loose = 7;
  first().reference_error = first().strict_error = 0.04;
  first().error = 0.05;
  EXPECT_EQ(judged().result, outcome::correct) << judged().reason;
  first().error = 1;
  EXPECT_EQ(failed_gate(), "3 error");
  first().error = 0.05;
  first().reference_signal_error = first().strict_signal_error = 0.04;
  first().signal_error = 1;
  EXPECT_EQ(failed_gate(), "4 signal");
  first().signal_error = 0.05;
  first().reference_error = first().strict_error = 0.2;
  first().error = 0.39;
  EXPECT_EQ(judged().result, outcome::correct) << "no further off than twice eager's error";
}

TEST_F(verifier, tensor_float_32_passes_only_where_eager_uses_it) {
  // A convolution: eager as shipped has TF32's error, strict float32 does not.
  first().reference_error = 2.9e-4;
  first().strict_error = 1e-7;
  first().strict_outside = 40;
  first().loose = true;
  first().error = 3e-4;
  EXPECT_EQ(judged().result, outcome::correct) << judged().reason;
  first().error = 2.3e-3;  // bfloat16 operands
  EXPECT_EQ(failed_gate(), "3 error");
  first().error = 3e-4;
  first().strict_outside = 0;
  first().reference_error = 1e-7;  // a matrix product: strict as shipped
  EXPECT_EQ(failed_gate(), "3 error");
}

TEST_F(verifier, an_output_that_is_zero_everywhere_is_compared_absolutely) {
  first().error = infinity;
  first().signal_error = infinity;
  first().reference_error = first().reference_signal_error = 0;
  first().strict_error = first().strict_signal_error = 0;
  first().max_absolute = 1e-6;
  EXPECT_EQ(judged().result, outcome::correct) << judged().reason;
  first().max_absolute = 9e-5;  // within gate 2's tolerance, but above the floor
  EXPECT_EQ(failed_gate(), "3 error");
  first().reference_error = infinity;  // eager is not exactly zero either
  EXPECT_EQ(judged().result, outcome::correct) << judged().reason;
}

// The mean of what was normalised: the exact output is what float64 leaves of 0, and eager's error 5e8 times that.
TEST_F(verifier, an_output_that_is_lost_in_rounding_is_judged_by_its_tolerance) {
  first().reference_error = first().strict_error = first().reference_signal_error = first().strict_signal_error = 5e8;
  first().error = first().signal_error = 1.1e9;
  EXPECT_EQ(judged().result, outcome::correct) << judged().reason;
  first().error = first().signal_error = 9e9;  // garbage, though small
  EXPECT_EQ(failed_gate(), "3 error");
  first().error = first().signal_error = 1.1e9;
  first().outside = 1;
  EXPECT_EQ(failed_gate(), "2 close");
  first().outside = 0;
  first().strict_error = first().strict_signal_error = 1e-6;  // only TF32 loses it
  EXPECT_EQ(failed_gate(), "3 error");
}

TEST_F(verifier, a_constant_does_not_pass_for_a_nearly_constant_output) {
  // 1 for an output of 1 + noise of 1e-6: close, with a small relative error, but without any of the signal.
  first().error = 1e-6;
  first().signal_error = 0.999;
  first().reference_signal_error = first().strict_signal_error = 0.02;
  EXPECT_EQ(failed_gate(), "4 signal");
  first().reference_signal_error = first().strict_signal_error = 0.05;
  EXPECT_EQ(failed_gate(), "4 signal");
  first().signal_error = 0.6;
  EXPECT_EQ(judged().result, outcome::correct) << "eager's own error hides much of the signal";
  first().signal_error = 5;
  first().error = 1e-7;
  EXPECT_EQ(judged().result, outcome::correct) << "the output does not vary at all";
}

// Two sines of large sums, which were 0.007 apart on a draw.
TEST_F(verifier, a_few_elements_may_be_alike_by_chance) {
  first().error = 2e-3;
  first().reference_error = first().strict_error = 1e-3;
  first().signal_error = 0.8;
  first().reference_signal_error = first().strict_signal_error = 0.2;
  EXPECT_EQ(judged().result, outcome::correct) << judged().reason;
  first().signal_error = 4;
  EXPECT_EQ(failed_gate(), "4 signal");
  first().signal_error = 0.8;
  first().strict_signal_error = 0.09;
  EXPECT_EQ(failed_gate(), "4 signal");
}

TEST_F(verifier, integers_must_be_equal) {
  use(make_task(input("int64", "[8]", "\"draw\": {\"distribution\": \"integer\", \"low\": 0, \"high\": 9}"),
                "aten::neg", "{\"self\": \"x\"}"));
  EXPECT_EQ(judged().result, outcome::correct) << judged().reason;
  first().max_absolute = 1;
  first().outside = 1;
  EXPECT_EQ(failed_gate(), "2 close");
  first().reference_outside = 1;
  EXPECT_EQ(judged().result, outcome::correct) << "eager has a tie there";
  first().outside = 2;
  EXPECT_EQ(failed_gate(), "2 close");
}

TEST_F(verifier, the_other_distributions_are_judged_like_the_tasks_own) {
  last().outside = 2;
  EXPECT_EQ(failed_gate(), "5 draws");
  EXPECT_NE(judged().reason.find("impulses (seed 77)"), std::string::npos) << judged().reason;
  EXPECT_NE(judged().reason.find("2 close"), std::string::npos);
  last().outside = 0;
  last().error = 1e-2;
  EXPECT_EQ(failed_gate(), "5 draws");
}

TEST_F(verifier, different_bits_for_the_same_inputs_are_inconsistent) {
  report.repeatable = false;
  EXPECT_EQ(judged().result, outcome::inconsistent);
  plan.repeat_first = false;
  EXPECT_EQ(judged().result, outcome::correct);
}

TEST_F(verifier, an_incomplete_report_is_never_correct) {
  report.draws.pop_back();
  EXPECT_EQ(judged().result, outcome::unmeasurable);
  report = honest(t, plan);
  std::swap(report.draws.front(), report.draws.back());
  EXPECT_EQ(judged().result, outcome::unmeasurable) << "other draws than requested";
  EXPECT_EQ(judge(t, {}, {}, options).result, outcome::unmeasurable) << "nothing was checked";
}

}  // namespace
}  // namespace cudal1
