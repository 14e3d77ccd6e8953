// A graph after its moves, as a program.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"
#include "policy/graph/graph.hpp"
#include "policy/graph/schedule.hpp"

namespace cudal1 {

// A schedule put onto a task's program for a target.
struct lowered {
  checked_program checked;
  std::vector<std::string> explanation;  // one line a move: what it does here and why it may pay
  std::vector<std::string>
      certificates;  // one for each move that needed a proof: the precondition, and where it was found
};

// errc::invalid_argument with the move's number and the reason where a move is not legal.
expected<lowered> lower(const task& t, const schedule& s, const lowering_target& target);
// The program that a graph became, not checked yet.
expected<program> lower(const graph& g, const lowering_target& target);

}  // namespace cudal1
