// A schedule that grows move by move, with the graph it leads to: for whoever searches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/moves/moves.hpp"

namespace cudal1 {

// Numbers that are the same on every machine for a seed (the standard's distributions are not).
class random_source {
 public:
  explicit random_source(uint64_t seed) : state_(seed) {}
  uint64_t next();
  double unit();  // [0, 1)
  std::size_t below(std::size_t n);
  bool chance(double p) { return unit() < p; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  uint64_t state_;
};

class schedule_builder {
 public:
  schedule_builder(const task& t, device_kind kind) : graph_(t), kind_(kind) {}
  const schedule& moves() const { return schedule_; }
  const graph& state() const { return graph_; }
  device_kind kind() const { return kind_; }
  // All legal moves of one kind.
  std::vector<move> legal(const move_kind& which) const;
  // Adds the move; an error where it is not legal here.
  expected<void> add(const move& m);
  // Adds legal moves of that name, as they are listed, until none is left.
  void add_all(std::string_view name);
  // Adds a legal move of that name, all but `except` equally likely; false where there is none. (For programs of
  // hundreds of steps, where trying all is slow.)
  bool add_any(const move_kind& which, random_source& random, const move& except = {});
  // The same of a kind of moves, all that have legal ones equally likely.
  bool add_any(random_source& random);
  // What the moves lead to, as lower() gives it.
  expected<program> lowered_program() const { return lower(graph_, kind_); }

 private:
  expected<graph> after(const move& m) const;

  graph graph_;
  device_kind kind_;
  schedule schedule_;
};

// The moves of a schedule that are legal one after the other; the others are left out.
schedule_builder repaired(const task& t, device_kind kind, const std::vector<move>& wanted);

// What everybody who knows the field would try first, written as moves: all proofs, the largest row kernels and chains,
// results in place; then the same with one kind of move left out. The fullest comes first; each is a program of its
// own. As long as the task takes: a network of hundreds of steps has dozens of kernels.
std::vector<schedule> whole_schedules(const task& t, device_kind kind);
// What comes after those: the fullest with one parameter chosen, and parts of it.
std::vector<schedule> further_schedules(const task& t, device_kind kind, const std::vector<schedule>& whole);

// A random legal schedule: kinds of moves are equally likely, then moves of a kind; never empty where a move is legal.
schedule_builder random_schedule(const task& t, device_kind kind, random_source& random);

}  // namespace cudal1
