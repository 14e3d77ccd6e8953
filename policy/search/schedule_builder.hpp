// A schedule that grows move by move, with the graph it leads to: for whoever searches.
#pragma once

#include <vector>

#include "policy/moves/lowering.hpp"
#include "policy/moves/move_registry.hpp"
#include "policy/search/random_source.hpp"

namespace cudal1 {

class schedule_builder {
 public:
  schedule_builder(const task& t, const lowering_target& target) : graph_(t), target_(&target) {}
  const schedule& moves() const { return schedule_; }
  const graph& state() const { return graph_; }
  const lowering_target& target() const { return *target_; }
  // All legal moves of one kind.
  std::vector<move> legal(const move_kind& which) const;
  // Adds the move; an error where it is not legal here.
  expected<void> add(const move& m);
  // Adds legal moves of the kind, as they are listed, until none is left.
  void add_all(const move_kind& which);
  // Adds a legal move of the kind, all but `except` equally likely; false where there is none. (For programs of
  // hundreds of steps, where trying all is slow.)
  bool add_any(const move_kind& which, random_source& random, const move& except = {});
  // The same of a kind of moves, all that have legal ones equally likely.
  bool add_any(random_source& random);
  // What the moves lead to, as lower() gives it.
  expected<program> lowered_program() const { return lower(graph_, *target_); }

 private:
  expected<graph> after(const move& m) const;

  graph graph_;
  const lowering_target* target_;
  schedule schedule_;
};

// The moves of a schedule that are legal one after the other; the others are left out.
schedule_builder repaired(const task& t, const lowering_target& target, const std::vector<move>& wanted);

// All moves that are legal after `s`, in a fixed order.
expected<std::vector<move>> legal_moves(const task& t, const schedule& s, const lowering_target& target);

// A random legal schedule: kinds of moves are equally likely, then moves of a kind; never empty where a move is legal.
schedule_builder random_schedule(const task& t, const lowering_target& target, random_source& random);

}  // namespace cudal1
