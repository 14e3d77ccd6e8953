// Checks of programs that a move of preparation makes of a task.
#pragma once

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "policy/moves/proof_checks.hpp"
#include "policy/search/assembly.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/known_parts_of_tests.hpp"

namespace cudal1::test {

inline bool has_move(const schedule& s, const char* name) {
  return std::ranges::count(s.moves, name, &move::name) > 0;
}

// The program's text, once its proofs hold and the gates have accepted it, unless it rounds to TF32; "" where it cannot
// be lowered.
inline std::string expect_accepted(judged_task& judged, proof_checks& proofs, const task& t, const schedule& s,
                                   const lowering_target& target) {
  SCOPED_TRACE(t.name + ": " + print_schedule(s));
  auto made = lower(t, s, target);
  if (!made) {
    ADD_FAILURE() << made.error().message;
    return "";
  }
  const auto checked = proofs.of(t, s, target, made->certificates);
  EXPECT_FALSE(checked.empty());
  for (const auto& step : checked)
    EXPECT_EQ(step.found, proof_finding::holds) << "step " << step.step << ": " << step.why;
  std::string text = print_program(made->checked.text);
  if (!rounds_to_tf32(s)) {
    EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "");
  }
  return text;
}

// Whole schedules are assembled from parts of this partition, and the gates accept them.
inline void expect_assembled(judged_task& judged, const task& t, const task_partitions& layout,
                             const lowering_target& target) {
  const auto schedules = assemble(t, target, layout, all_known(layout, target));
  EXPECT_FALSE(schedules.empty()) << t.name;
  for (const auto& s : schedules) {
    SCOPED_TRACE(t.name + ": " + print_schedule(s.plan));
    EXPECT_EQ(s.left_out, 0);
    auto made = lower(t, s.plan, target);
    if (!made) {
      ADD_FAILURE() << made.error().message;
    } else if (!rounds_to_tf32(s.plan)) {
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "");
    }
  }
}

}  // namespace cudal1::test
