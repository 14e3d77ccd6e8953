// A schedule that grows move by move, with the graph it leads to: for whoever searches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/moves.hpp"

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
  // Adds the move if it is legal here.
  bool add(const move& m);
  // All legal moves of one name.
  std::vector<move> legal(const std::string& name) const;
  // The first of them, and one of them, all equally likely: for programs of hundreds of steps, where trying all is
  // slow.
  std::optional<move> first_legal(const std::string& name) const;
  std::optional<move> any_legal(const std::string& name, random_source& random) const;
  // Of a kind of moves, all that have legal ones equally likely.
  std::optional<move> any_legal(random_source& random) const;

 private:
  bool is_legal(const move& m) const;

  graph graph_;
  device_kind kind_;
  schedule schedule_;
};

// The moves of a schedule that are legal one after the other; the others are left out.
schedule_builder repaired(const task& t, device_kind kind, const std::vector<move>& wanted);

// What everybody who knows the field would try first, written as moves: all proofs, the largest row kernels and chains,
// results in place; then the same with one kind of move left out. The fullest comes first; each is a program of its
// own.
std::vector<schedule> whole_schedules(const task& t, device_kind kind);
// Those, parts of them, and the fullest with one parameter chosen.
std::vector<schedule> first_schedules(const task& t, device_kind kind);

// A random legal schedule: kinds of moves are equally likely, then moves of a kind; never empty where a move is legal.
schedule random_schedule(const task& t, device_kind kind, random_source& random);

}  // namespace cudal1
