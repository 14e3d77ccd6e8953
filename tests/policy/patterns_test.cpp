// What language models are made of becomes kernels, which the gates accept, in every type and for every target.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/starting_schedules.hpp"
#include "policy/search/why_no_moves.hpp"
#include "sandbox/program/operators/record.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/pattern_tasks.hpp"
#include "tests/policy/task_texts.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using case_name = std::tuple<const char*, const char*>;  // type, target

class patterns : public testing::TestWithParam<case_name> {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
  std::string type() const { return std::get<0>(GetParam()); }
  const lowering_target& target() const { return target_named(std::get<1>(GetParam())); }
};

INSTANTIATE_TEST_SUITE_P(
    all, patterns, testing::Combine(testing::Values("float32", "float16", "bfloat16"), testing::Values("cpu", "cuda")),
    [](const auto& each) { return std::string(std::get<0>(each.param)) + "_" + std::get<1>(each.param); });

program lowered(const task& t, const schedule& s, const lowering_target& target) {
  auto made = lower(t, s, target);
  if (!made) throw std::runtime_error(t.name + ": " + made.error().message);
  return std::move(made->checked.text);
}

// The first whole schedule, or the first one that replaces a loss or the index of an extremum.
schedule fullest(const task& t, const lowering_target& target) {
  const auto whole = whole_schedules(t, target);
  if (whole.empty()) throw std::runtime_error(t.name + ": " + why_no_moves(t, target));
  const auto replaces = [](const schedule& s) {
    return std::ranges::any_of(s.moves,
                               [](const move& m) { return m.name == "class_loss" || m.name == "extremum_index"; });
  };
  const auto found = std::ranges::find_if(whole, replaces);
  return found == whole.end() ? whole.front() : *found;
}

TEST_P(patterns, become_kernels) {
  for (const auto& p : pattern_tasks(type())) {
    const schedule plan = fullest(p.what, target());
    const program made = lowered(p.what, plan, target());
    int kernels = 0;
    std::vector<std::string> library;
    for (const auto& s : made.steps) {
      kernels += std::holds_alternative<launch_step>(s) ? 1 : 0;
      if (const auto* call = std::get_if<aten_step>(&s); call != nullptr) {
        const auto* op = find_operator(call->op);
        const bool is_view =
            op != nullptr && (op->record->kind == operator_kind::view || op->record->kind == operator_kind::list);
        if (!is_view) library.push_back(call->op);
      }
    }
    EXPECT_LE(kernels, p.kernels) << p.what.name << ": " << print_schedule(plan);
    EXPECT_GE(kernels, 1) << p.what.name;
    EXPECT_EQ(library, p.library) << p.what.name << ": " << print_schedule(plan);
  }
}

TEST_P(patterns, are_accepted_by_the_gates) {
  for (const auto& p : pattern_tasks(type())) {
    judged_task judged(p.what);
    const schedule plan = fullest(p.what, target());
    EXPECT_EQ(judged.problem_of(lowered(p.what, plan, target())), "") << p.what.name << ": " << print_schedule(plan);
  }
}

TEST(Patterns, CompileForAGpu) {
  for (const char* type : {"float16", "bfloat16"}) {
    for (const auto& p : pattern_tasks(type)) {
      const auto compiled = compile(lowered(p.what, fullest(p.what, for_cuda()), for_cuda()).source);
      EXPECT_TRUE(compiled) << p.what.name << ": " << compiled.error().message;
    }
  }
}

TEST(Patterns, AWrongProgramIsRejected) {
  const auto all = pattern_tasks("bfloat16");
  const task& t = all.front().what;
  judged_task judged(t);
  program p = lowered(t, fullest(t, for_cpu()), for_cpu());
  const auto at = p.source.find("1.0f + __expf");
  ASSERT_NE(at, std::string::npos) << p.source;
  p.source.replace(at, 4, "1.1f");
  EXPECT_NE(judged.problem_of(std::move(p)), "");
}

// 16 bytes at a time: eight elements of a half type.
TEST(Patterns, HalfTypesAreMovedInWordsOfEightElements) {
  for (const char* type : {"float16", "bfloat16"}) {
    for (const auto& p : pattern_tasks(type)) {
      if (!p.what.name.starts_with("swiglu") && !p.what.name.starts_with("residual_rms_norm")) continue;
      const program made = lowered(p.what, fullest(p.what, for_cuda()), for_cuda());
      EXPECT_THAT(made.source, testing::HasSubstr("*(const uint4*)")) << p.what.name;
      EXPECT_THAT(made.source, testing::HasSubstr("= make_uint4(")) << p.what.name;
    }
  }
}

TEST(Patterns, OddRowsAreMovedInShiftedVectors) {
  using testing::HasSubstr;
  int shifted = 0;
  for (const auto& [type, word] : {std::pair("bfloat16", "uint4"), std::pair("float32", "float4")})
    for (const auto& p : pattern_tasks(type)) {
      const std::string& name = p.what.name;
      const bool is_long = name.find("long_odd_rows") != std::string::npos;
      if (name.find("odd_rows") == std::string::npos || (!is_long && type == std::string("float32"))) continue;
      const program made = lowered(p.what, fullest(p.what, for_cuda()), for_cuda());
      EXPECT_THAT(made.source, HasSubstr("const bool whole = c0 >= 0")) << name;
      EXPECT_THAT(made.source, HasSubstr(fmt::format("*(const {}*)", word))) << name;
      EXPECT_EQ(made.source.find("float online[") != std::string::npos, is_long) << name;
      ++shifted;
    }
  EXPECT_EQ(shifted, 9);
}

}  // namespace
}  // namespace cudal1::test
