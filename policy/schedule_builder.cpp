#include "policy/schedule_builder.hpp"

#include <algorithm>
#include <set>

namespace cudal1 {

namespace {

constexpr double k_stop = 0.2;         // after each move of a random schedule
constexpr std::size_t k_longest = 24;  // moves

const std::vector<std::string> k_tunings = {"block", "items", "row_threads", "unroll", "recompute"};

// Adds moves of these names, the first legal one each time, until none is left or there are enough. One graph of the
// whole program always fits.
void exhaust(schedule_builder& b, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    while (b.moves().moves.size() < k_longest || name == "graph") {
      const auto next = b.first_legal(name);
      if (!next || !b.add(*next)) break;
    }
  }
}

// What each list of names gives, without those that are a program that came before.
std::vector<schedule> distinct(const task& t, device_kind kind, const std::vector<std::vector<std::string>>& families) {
  std::vector<schedule> out;
  std::set<std::string> programs;
  for (const auto& family : families) {
    schedule_builder b(t, kind);
    exhaust(b, family);
    if (b.moves().moves.empty()) continue;
    const auto result = lower(t, b.moves(), kind);
    if (result && programs.insert(program_id(result->result)).second) out.push_back(b.moves());
  }
  return out;
}

}  // namespace

// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t random_source::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double random_source::unit() {
  return static_cast<double>(next() >> 11) * 0x1p-53;
}

std::size_t random_source::below(std::size_t n) {
  return n == 0 ? 0 : static_cast<std::size_t>(next() % n);
}

bool schedule_builder::add(const move& m) {
  graph trial = graph_;
  if (!apply_move(trial, m, kind_)) return false;
  graph_ = std::move(trial);
  schedule_.moves.push_back(m);
  return true;
}

bool schedule_builder::is_legal(const move& m) const {
  graph trial = graph_;
  return apply_move(trial, m, kind_).has_value();
}

std::vector<move> schedule_builder::legal(const std::string& name) const {
  std::vector<move> out;
  const move_kind* found = find_move(name);
  if (found == nullptr) return out;
  for (auto& candidate : found->candidates(graph_, kind_)) {
    if (is_legal(candidate)) out.push_back(std::move(candidate));
  }
  return out;
}

std::optional<move> schedule_builder::first_legal(const std::string& name) const {
  const move_kind* found = find_move(name);
  if (found == nullptr) return std::nullopt;
  for (auto& candidate : found->candidates(graph_, kind_)) {
    if (is_legal(candidate)) return std::move(candidate);
  }
  return std::nullopt;
}

std::optional<move> schedule_builder::any_legal(const std::string& name, random_source& random) const {
  const move_kind* found = find_move(name);
  if (found == nullptr) return std::nullopt;
  for (auto left = found->candidates(graph_, kind_); !left.empty(); left.pop_back()) {
    std::swap(left[random.below(left.size())], left.back());
    if (is_legal(left.back())) return std::move(left.back());
  }
  return std::nullopt;
}

std::optional<move> schedule_builder::any_legal(random_source& random) const {
  std::vector<const move_kind*> left;
  for (const auto& kind : move_kinds())
    left.push_back(&kind);
  for (; !left.empty(); left.pop_back()) {
    std::swap(left[random.below(left.size())], left.back());
    if (auto found = any_legal(left.back()->name, random)) return found;
  }
  return std::nullopt;
}

schedule_builder repaired(const task& t, device_kind kind, const std::vector<move>& wanted) {
  schedule_builder out(t, kind);
  for (const auto& m : wanted) {
    if (out.moves().moves.size() < k_longest) out.add(m);
  }
  return out;
}

std::vector<schedule> whole_schedules(const task& t, device_kind kind) {
  const std::vector<std::string> fused{
      "pull_sum_through_linear", "diagonal_matmul", "drop", "row_kernel", "fuse_into_reduction", "fuse"};
  const auto with = [](std::vector<std::string> names, const std::vector<std::string>& more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  if (kind == device_kind::cuda)
    return distinct(t, kind,
                    {with(fused, {"in_place", "graph"}),
                     with(fused, {"precision", "in_place", "graph"}),
                     with(fused, {"graph"}),
                     with(fused, {"in_place"}),
                     {"row_kernel", "fuse", "in_place", "graph"},
                     {"graph"}});
  return distinct(t, kind, {with(fused, {"in_place"}), fused, {"row_kernel", "fuse", "in_place"}});
}

std::vector<schedule> first_schedules(const task& t, device_kind kind) {
  std::vector<schedule> out = whole_schedules(t, kind);
  if (out.empty()) return out;
  const schedule_builder full = repaired(t, kind, out.front().moves);
  for (const auto& name : k_tunings) {
    for (const auto& m : full.legal(name)) {
      schedule_builder b = full;
      if (b.add(m)) out.push_back(b.moves());
    }
  }
  for (auto& part :
       distinct(t, kind, {{"fuse", "in_place"}, {"row_kernel"}, {"diagonal_matmul", "drop"}, {"precision"}})) {
    if (std::find(out.begin(), out.end(), part) == out.end()) out.push_back(std::move(part));
  }
  return out;
}

schedule random_schedule(const task& t, device_kind kind, random_source& random) {
  schedule_builder b(t, kind);
  while (b.moves().moves.size() < k_longest) {
    const auto next = b.any_legal(random);
    if (!next) break;
    b.add(*next);
    if (random.chance(k_stop)) break;
  }
  return b.moves();
}

}  // namespace cudal1
