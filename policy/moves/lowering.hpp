// Lowering: from a task and a schedule to a program.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"
#include "policy/graph/graph.hpp"
#include "policy/graph/schedule.hpp"

namespace cudal1 {

// The result of applying a schedule to a task's program for a target.
struct lowered {
  checked_program checked;
  std::vector<std::string> explanation;   // one line per move: what it does here and why it may help
  std::vector<std::string> certificates;  // one for each move that needed a proof
  kernel_works work;                      // of generated kernels
};

// A lowering before the program is checked. A policy that lowers what it proposes passes this on, so that it is not
// lowered again.
struct unchecked_lowering {
  program text;
  std::vector<std::string> explanation, certificates;  // as in `lowered`
  kernel_works work;
};

// errc::invalid_argument with the move's number and the reason where a move is not legal.
expected<lowered> lower(const task& t, const schedule& s, const lowering_target& target);
// Checks the program. The error says that it is the lowered one.
expected<lowered> check_lowered(unchecked_lowering made);
// The program of a graph, not checked yet, and the work of its kernels.
struct lowered_graph {
  program text;
  kernel_works work;
};
expected<lowered_graph> lower_graph(const graph& g, const lowering_target& target);
expected<program> lower(const graph& g, const lowering_target& target);

}  // namespace cudal1
