#include "policy/search/schedule_builder.hpp"

#include <algorithm>

namespace cudal1 {

namespace {

constexpr double k_stop = 0.2;                // probability, after each move of a random schedule
constexpr std::size_t k_longest_random = 24;  // moves

}  // namespace

expected<schedule_builder::applied> schedule_builder::after(const move& m) const {
  applied trial{graph_, ""};
  CUDAL1_TRY(trial.explanation, apply_move(trial.state, m, *target_));
  return trial;
}

const expected<unchecked_lowering>& schedule_builder::lowering() {
  if (!lowering_)
    lowering_ = lower_graph(graph_, *target_).map([this](lowered_graph made) {
      return unchecked_lowering{std::move(made.text), explanation_, graph_.certificates(), std::move(made.work)};
    });
  return *lowering_;
}

expected<unchecked_lowering> schedule_builder::take_lowering() {
  lowering();
  return *std::exchange(lowering_, std::nullopt);
}

std::vector<move> schedule_builder::legal(const move_kind& which) const {
  std::vector<move> out = which.candidates(graph_, *target_);
  std::erase_if(out, [&](const move& m) { return !after(m); });
  return out;
}

expected<void> schedule_builder::add(const move& m) {
  CUDAL1_TRY(applied now, after(m));
  graph_ = std::move(now.state);
  schedule_.moves.push_back(m);
  explanation_.push_back(std::move(now.explanation));
  lowering_.reset();
  return {};
}

void schedule_builder::add_all(const move_kind& which) {
  // A move may make another one legal that was rejected, or not listed, before it.
  for (bool added = true; added;) {
    added = false;
    for (const auto& candidate : which.candidates(graph_, *target_))
      added = add(candidate).has_value() || added;
  }
}

bool schedule_builder::add_any(const move_kind& which, random_source& random, const move& except) {
  for (auto left = which.candidates(graph_, *target_); !left.empty(); left.pop_back()) {
    std::swap(left[random.below(left.size())], left.back());
    if (left.back() != except && add(left.back())) return true;
  }
  return false;
}

bool schedule_builder::add_any(random_source& random) {
  std::vector<const move_kind*> left;
  for (const auto& kind : move_kinds())
    left.push_back(&kind);
  for (; !left.empty(); left.pop_back()) {
    std::swap(left[random.below(left.size())], left.back());
    if (add_any(*left.back(), random)) return true;
  }
  return false;
}

expected<std::vector<move>> legal_moves(const task& t, const schedule& s, const lowering_target& target) {
  schedule_builder b(t, target);
  for (std::size_t i = 0; i < s.moves.size(); ++i) {
    auto added = b.add(s.moves[i]);
    if (!added) return fail_in(fmt::format("move {} ({})", i, s.moves[i].name), added.error());
  }
  std::vector<move> out;
  for (const auto& each : move_kinds()) {
    for (auto& m : b.legal(each))
      out.push_back(std::move(m));
  }
  return out;
}

schedule_builder repaired(const task& t, const lowering_target& target, const std::vector<move>& wanted) {
  schedule_builder out(t, target);
  for (const auto& m : wanted)
    out.add(m);
  return out;
}

schedule_builder random_schedule(const task& t, const lowering_target& target, random_source& random) {
  return random_schedule(schedule_builder(t, target), random);
}

schedule_builder random_schedule(schedule_builder from, random_source& random) {
  while (from.moves().moves.size() < k_longest_random && from.add_any(random)) {
    if (random.chance(k_stop)) break;
  }
  return from;
}

}  // namespace cudal1
