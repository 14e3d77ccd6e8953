#include "policy/search/schedule_builder.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace cudal1 {

namespace {

constexpr double k_stop = 0.2;                // after each move of a random schedule
constexpr std::size_t k_longest_random = 24;  // moves

const std::vector<std::string> k_tunings = {"block", "items", "row_threads", "unroll", "recompute"};

using move_names = std::vector<std::string>;

// Schedules of all legal moves of some names, name after name. What lists of names begin with alike is made once.
class families {
 public:
  families(const task& t, device_kind kind) { made_.emplace(move_names{}, schedule_builder(t, kind)); }
  const schedule_builder& of(const move_names& names) {
    if (const auto known = made_.find(names); known != made_.end()) return known->second;
    schedule_builder out = of({names.begin(), names.end() - 1});
    out.add_all(names.back());
    return made_.emplace(names, std::move(out)).first->second;
  }

 private:
  std::map<move_names, schedule_builder> made_;
};

// What each list of names gives, without those that are a program that came before.
std::vector<schedule> distinct(const task& t, device_kind kind, const std::vector<move_names>& lists) {
  std::vector<schedule> out;
  std::set<std::string> programs;
  families all(t, kind);
  for (const auto& names : lists) {
    const schedule_builder& b = all.of(names);
    if (b.moves().moves.empty()) continue;
    const auto result = b.lowered_program();
    if (result && programs.insert(program_id(*result)).second) out.push_back(b.moves());
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

expected<graph> schedule_builder::after(const move& m) const {
  graph trial = graph_;
  CUDAL1_CHECK(apply_move(trial, m, kind_));
  return trial;
}

std::vector<move> schedule_builder::legal(const move_kind& which) const {
  std::vector<move> out = which.candidates(graph_, kind_);
  std::erase_if(out, [&](const move& m) { return !after(m); });
  return out;
}

expected<void> schedule_builder::add(const move& m) {
  CUDAL1_TRY(graph_, after(m));
  schedule_.moves.push_back(m);
  return {};
}

void schedule_builder::add_all(std::string_view name) {
  const move_kind* which = find_move(name);
  // One move may make another legal that was refused before it, or one that was not listed.
  for (bool added = which != nullptr; added;) {
    added = false;
    for (const auto& candidate : which->candidates(graph_, kind_))
      added = add(candidate).has_value() || added;
  }
}

bool schedule_builder::add_any(const move_kind& which, random_source& random, const move& except) {
  for (auto left = which.candidates(graph_, kind_); !left.empty(); left.pop_back()) {
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

expected<std::vector<move>> legal_moves(const task& t, const schedule& s, device_kind kind) {
  schedule_builder b(t, kind);
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

schedule_builder repaired(const task& t, device_kind kind, const std::vector<move>& wanted) {
  schedule_builder out(t, kind);
  for (const auto& m : wanted)
    out.add(m);
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

std::vector<schedule> further_schedules(const task& t, device_kind kind, const std::vector<schedule>& whole) {
  std::vector<schedule> out;
  if (whole.empty()) return out;
  const schedule_builder full = repaired(t, kind, whole.front().moves);
  for (const auto& name : k_tunings) {
    for (auto& m : full.legal(*find_move(name))) {
      out.push_back(full.moves());
      out.back().moves.push_back(std::move(m));
    }
  }
  for (auto& part :
       distinct(t, kind, {{"fuse", "in_place"}, {"row_kernel"}, {"diagonal_matmul", "drop"}, {"precision"}})) {
    if (std::ranges::count(whole, part) + std::ranges::count(out, part) == 0) out.push_back(std::move(part));
  }
  return out;
}

schedule_builder random_schedule(const task& t, device_kind kind, random_source& random) {
  schedule_builder b(t, kind);
  while (b.moves().moves.size() < k_longest_random && b.add_any(random)) {
    if (random.chance(k_stop)) break;
  }
  return b;
}

}  // namespace cudal1
