// Builds a schedule move by move, together with the resulting graph.
#pragma once

#include <optional>
#include <string>
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
  // Adds legal moves of the kind, in the order of the candidates, until none is left.
  void add_all(const move_kind& which);
  // Adds a random legal move of the kind other than `except`, all equally likely; false where there is none. Does not
  // test all candidates, which is slow for programs of hundreds of steps.
  bool add_any(const move_kind& which, random_source& random, const move& except = {});
  // The same for a random kind of move, all kinds with a legal move equally likely.
  bool add_any(random_source& random);
  // The program after the moves, as lower() returns it.
  expected<program> lowered_program() const { return lower(graph_, *target_); }
  // The same with what lower() says of the moves. Kept until a move is added: to ask whether a program is known, and to
  // propose it, costs one lowering.
  const expected<unchecked_lowering>& lowering();
  expected<unchecked_lowering> take_lowering();

 private:
  struct applied {
    graph state;
    std::string explanation;
  };
  expected<applied> after(const move& m) const;

  graph graph_;
  const lowering_target* target_;
  schedule schedule_;
  std::vector<std::string> explanation_;  // one line a move
  std::optional<expected<unchecked_lowering>> lowering_;
};

// The schedule without the moves that are not legal in their place.
schedule_builder repaired(const task& t, const lowering_target& target, const std::vector<move>& wanted);

// All moves that are legal after `s`, in a fixed order.
expected<std::vector<move>> legal_moves(const task& t, const schedule& s, const lowering_target& target);

// A random legal schedule: kinds of moves are equally likely, then moves of a kind; never empty where a move is legal.
schedule_builder random_schedule(const task& t, const lowering_target& target, random_source& random);
// One that begins with these moves.
schedule_builder random_schedule(schedule_builder from, random_source& random);

}  // namespace cudal1
