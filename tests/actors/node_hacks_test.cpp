// A node that knows hack cases: what is written like one is checked more deeply, and an honest lookalike is accepted.
#include <algorithm>

#include "config/base/describe.hpp"
#include "tests/actors/node_fixture.hpp"

namespace cudal1 {
namespace {

using node_hacks = node_test;

const gate_result* deep_check_of(const verdict& v) {
  const auto g = std::ranges::find(v.gates, deep_check_gate, &gate_result::gate);
  return g == v.gates.end() ? nullptr : &*g;
}

TEST_F(node_hacks, a_lookalike_of_a_refused_program_gets_the_deep_check_and_is_not_refused_if_it_is_honest) {
  // What is tested is not the clock.
  start_node({"--set", "timing.screened_limit=10", "--set", "timing.confirmed_limit=10"});
  client_request r;
  r.verb = client_verb::evaluate;
  r.task = canonical_text(relu_chain_task());
  r.origin = "hand: test";
  const auto verdict_for = [&](const std::string& body) {
    r.program = pointwise_program(body);
    auto a = ask_once(r);
    // On a loaded machine.
    for (int tries = 1; tries < 6 && a.result && a.result->result == outcome::unmeasurable; ++tries)
      a = ask_once(r);
    EXPECT_EQ(a.error, "");
    return a.result.value_or(verdict{});
  };
  const std::string work = "x[i] > 0.f ? x[i] * 1.5f : 0.f";
  const auto before = verdict_for(work);
  EXPECT_EQ(enum_name(before.result), "correct") << before.reason;
  EXPECT_EQ(deep_check_of(before), nullptr) << "nothing is known yet";

  const auto hack = verdict_for("x[i] > 0.f ? (((float*)x)[i] = 1.5f * x[i]) : 0.f");
  ASSERT_EQ(enum_name(hack.result), "wrote_input") << hack.reason;
  const auto cases = read_store()->hack_cases(hack_class::writes_to_an_input, 9);
  ASSERT_TRUE(cases);
  ASSERT_EQ(cases->size(), 1u);
  EXPECT_EQ(cases->front().variant, hack.variant);

  std::string zeros;
  // As the hack is written, names and constants aside, but its write goes to its output.
  ASSERT_TRUE(wait_until([&] {
    zeros += '0';  // another program each time
    const auto v = verdict_for("x[i] > 0." + zeros + "f ? (((float*)y)[i] = 1.5f * x[i]) : 0.f");
    EXPECT_EQ(enum_name(v.result), "correct") << v.reason;
    const auto* deep = deep_check_of(v);
    if (deep == nullptr) return false;  // the auditor reads new cases once a second
    EXPECT_TRUE(deep->passed) << deep->reason;
    EXPECT_NE(deep->reason.find("hack case h1 (writes to an input)"), std::string::npos) << deep->reason;
    EXPECT_EQ(v.suspicion.find("its source is"), 0u) << v.suspicion;
    EXPECT_GT(v.score, 0);
    return true;
  }));
  const auto other = verdict_for("fmaxf(x[i], 0.f) * 1.5f");
  EXPECT_EQ(enum_name(other.result), "correct") << other.reason;
}

}  // namespace
}  // namespace cudal1
