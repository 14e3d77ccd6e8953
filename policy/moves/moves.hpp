// The moves: each with its name, what it is for, where it is legal and what it does to a graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "policy/codegen/kernel_body.hpp"

namespace cudal1 {

// What one move did, for people and for the record.
struct move_note {
  std::string explanation;
  std::string certificate;  // "" where no proof was needed
};

struct move_kind {
  std::string name;
  std::string summary;                  // one sentence
  std::vector<std::string> parameters;  // in their order
  // Candidates after what was done already; they are tried before anybody sees them.
  std::function<std::vector<move>(const graph&, device_kind)> candidates;
  // Does it, or says why not; on an error the graph may be half changed.
  std::function<expected<move_note>(graph&, const move&, device_kind)> apply;
};

const std::vector<move_kind>& move_kinds();
const move_kind* find_move(std::string_view name);

// Applies a move after its name and parameters were checked.
expected<move_note> apply_move(graph& g, const move& m, device_kind kind);

// The program that a graph became; lower() of a schedule checks it too.
expected<program> lower(const graph& g, device_kind kind);

// The families of moves, each in a file of its own.
std::vector<move_kind> grouping_moves();
std::vector<move_kind> tuning_moves();
std::vector<move_kind> proof_moves();
std::vector<move_kind> execution_moves();

// Parameters, by name; errors say what would be right.
expected<int64_t> integer_parameter(const move& m, std::string_view name);
expected<std::vector<int>> steps_parameter(const graph& g, const move& m, std::string_view name);
expected<int> group_parameter(const graph& g, const move& m);

// The kernel of a new or larger group can be built and written, and an order runs everything.
expected<void> check_group(const graph& g, int group, device_kind kind);
// The kernel of a group can be written with the options that it has now.
expected<void> check_kernel(const graph& g, int group, const kernel_body& body, device_kind kind);
// Makes one group of the steps, in place of pointwise groups that it takes in whole; `into` extends that group.
expected<int> make_group(graph& g, std::vector<int> steps, group_kind kind, int into = -1);
// "g0_relu_mul": the name of a group's kernel.
std::string kernel_name(const graph& g, int group);
// "relu, mul".
std::string operator_names(const graph& g, const std::vector<int>& steps);

}  // namespace cudal1
