// A kind of move: its name, what it is for, when it comes, where it is legal and what it does to a graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"
#include "policy/graph/graph.hpp"
#include "policy/graph/schedule.hpp"

namespace cudal1 {

// When a move comes. A whole schedule goes through the phases in this order.
enum class move_phase {
  always,          // proofs and constants: the program does less, whatever runs it
  grouping,        // which steps are one kernel
  implementation,  // another way to compute what a step computes: worth it on some devices and sizes
  tuning,          // how a kernel is cut
  execution,       // how the program runs: where results go, and how kernels are launched
};
inline constexpr move_phase move_phases[] = {move_phase::always, move_phase::grouping, move_phase::implementation,
                                             move_phase::tuning, move_phase::execution};

// Schedules of a few kinds of moves, which are tried beside the whole ones before any search.
enum class starting_part {
  plain_kernels,          // kernels without any proof
  unchanged_program,      // the task's own steps, run in another way
  elementwise_kernels,    // kernels over elements alone
  row_kernels,            // kernels over rows alone
  proofs,                 // proofs alone
  other_implementations,  // the library's steps in another way
};

struct move_kind {
  std::string name;
  std::string summary;                  // one sentence
  std::vector<std::string> parameters;  // in their order
  move_phase phase = move_phase::always;
  int order = 0;                          // within the phase; of equal ones the first registered comes first
  std::vector<starting_part> parts = {};  // that hold it
  // Candidates after what was done already; they are tried before anybody sees them.
  std::function<std::vector<move>(const graph&, const lowering_target&)> candidates;
  // Does it and says what it did, in one sentence; or says why not, and then the graph may be half changed.
  std::function<expected<std::string>(graph&, const move&, const lowering_target&)> apply;

  // Whether it chooses a number for what it names, which another number could take the place of.
  bool chooses_a_value() const { return phase == move_phase::tuning && parameters.size() > 1; }
};

// One candidate for each step, and for each group that the move was not made on yet; for moves of that parameter alone.
std::vector<move> each_step(const std::string& name, const graph& g);
std::vector<move> each_group(const std::string& name, const graph& g);

// Parameters, by name; errors say what would be right.
expected<std::string> text_parameter(const move& m, std::string_view name);
expected<int64_t> integer_parameter(const move& m, std::string_view name);
expected<const graph_step*> step_parameter(const graph& g, const move& m);
expected<std::vector<int>> steps_parameter(const graph& g, const move& m, std::string_view name);
expected<int> group_parameter(const graph& g, const move& m);

}  // namespace cudal1
