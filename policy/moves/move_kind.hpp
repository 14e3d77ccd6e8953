// A kind of move: its name, purpose, phase, candidates and what it does to a graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"
#include "policy/graph/graph.hpp"
#include "policy/graph/schedule.hpp"

namespace cudal1 {

// When a move is applied. A whole schedule goes through the phases in this order.
enum class move_phase {
  preparation,     // another program for the task, before all else, since its steps have other numbers
  always,          // proofs and constants: less work on every device
  grouping,        // which steps are one kernel
  implementation,  // another way to compute what a step computes: worth it on some devices and sizes
  tuning,          // how a kernel's work is divided
  execution,       // how the program runs: where results go, and how kernels are launched
};
inline constexpr move_phase move_phases[] = {move_phase::preparation,    move_phase::always, move_phase::grouping,
                                             move_phase::implementation, move_phase::tuning, move_phase::execution};

// Schedules of a few kinds of moves, which are tried in addition to the whole schedules before any search.
enum class starting_part {
  plain_kernels,          // kernels without any proof
  unchanged_program,      // the task's own steps, launched in another way
  elementwise_kernels,    // kernels over elements alone
  row_kernels,            // kernels over rows alone
  proofs,                 // proofs alone
  other_implementations,  // other implementations of library steps alone
  rewritten_layers,       // layers computed as others, which is not faster on every device
};

struct move_kind {
  std::string name;
  std::string summary;                     // one sentence
  std::vector<std::string> parameters;     // in their order
  std::vector<std::string> optional = {};  // further ones after them, in this order, any of which may be left out
  move_phase phase = move_phase::always;
  int order = 0;                          // within the phase; ties in the order of registration
  std::vector<starting_part> parts = {};  // the starting parts that contain it
  // Candidates for the graph's current state. They may be illegal: callers test them by applying them.
  std::function<std::vector<move>(const graph&, const lowering_target&)> candidates;
  // Applies the move and returns what it did, in one sentence. After an error the graph may be partly changed.
  std::function<expected<std::string>(graph&, const move&, const lowering_target&)> apply;

  // Whether the move sets a numeric option, so that another value could replace its value.
  bool chooses_a_value() const { return phase == move_phase::tuning && parameters.size() > 1; }
};

// One candidate for each step, or for each group that the move was not applied to yet; for moves with that parameter
// only.
std::vector<move> each_step(const std::string& name, const graph& g);
std::vector<move> each_group(const std::string& name, const graph& g);

// A parameter's value; null where the move does not have it.
const std::string* find_parameter(const move& m, std::string_view name);
// Parameters by name; errors say what is expected.
expected<std::string> text_parameter(const move& m, std::string_view name);
expected<int64_t> integer_parameter(const move& m, std::string_view name);
expected<const graph_step*> step_parameter(const graph& g, const move& m);
expected<std::vector<int>> steps_parameter(const graph& g, const move& m, std::string_view name);
expected<int> group_parameter(const graph& g, const move& m);

}  // namespace cudal1
