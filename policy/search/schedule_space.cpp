#include "policy/search/schedule_space.hpp"

#include <set>
#include <utility>

#include "policy/search/starting_schedules.hpp"

namespace cudal1 {

namespace {

class enumeration {
 public:
  enumeration(const lowering_target& target, std::size_t most) : target_(&target), most_(most) {}

  // Whether its program is a new one, for which there is room.
  bool add(const schedule_builder& at) {
    const auto made = at.lowered_program();
    if (!made) return false;
    std::string id = program_id(*made);
    if (!known_.insert(id).second) return false;
    if (found_.schedules.size() == most_) found_.is_complete = false;
    if (is_full()) return false;
    found_.schedules.push_back(at.moves());
    found_.programs.push_back(std::move(id));
    return true;
  }
  void add_implementation(const schedule_builder& at) {
    if (add(at)) level_.push_back({at, 0});
  }

  // Every implementation with one more decision, until nothing is new or there is no room.
  void expand() {
    while (!level_.empty() && !is_full()) {
      for (const auto& each : std::exchange(level_, {}))
        expand(each);
    }
  }

  schedule_space take() { return std::move(found_); }

 private:
  struct node {
    schedule_builder at;
    std::size_t next;  // the decisions before it are made
  };

  bool is_full() const { return !found_.is_complete; }

  void expand(const node& from) {
    const auto kinds = moves_of(move_phase::tuning);
    const std::size_t decisions = kinds.size() * from.at.state().groups().size();
    for (std::size_t i = from.next; i < decisions; ++i) {
      const move_kind& kind = *kinds[i % kinds.size()];
      const std::pair<std::string, std::string> group("group", std::to_string(i / kinds.size()));
      for (const auto& m : kind.candidates(from.at.state(), *target_)) {
        if (is_full()) return;
        if (m.parameters.empty() || m.parameters.front() != group) continue;
        schedule_builder with = from.at;
        if (with.add(m) && add(with)) level_.push_back({std::move(with), i + 1});
      }
    }
  }

  const lowering_target* target_;
  std::size_t most_;
  schedule_space found_;
  std::set<std::string> known_;  // programs
  std::vector<node> level_;
};

// The schedule with one of its implementations in each other way (the same first parameter).
std::vector<schedule_builder> in_other_ways(const task& t, const lowering_target& target, const schedule& s) {
  std::vector<schedule_builder> out;
  schedule_builder before(t, target);
  for (std::size_t i = 0; i < s.moves.size(); ++i) {
    const move& now = s.moves[i];
    const move_kind* kind = find_move(now.name);
    if (kind != nullptr && kind->phase == move_phase::implementation && !now.parameters.empty())
      for (auto& other : kind->candidates(before.state(), target)) {
        if (other == now || other.parameters.empty() || other.parameters.front() != now.parameters.front()) continue;
        std::vector<move> moves = s.moves;
        moves[i] = std::move(other);
        out.push_back(repaired(t, target, moves));
      }
    before.add(now);
  }
  return out;
}

}  // namespace

schedule_space space_of(const task& t, const lowering_target& target, std::size_t most) {
  enumeration all(target, most);
  all.add(schedule_builder(t, target));
  const auto whole = whole_schedules(t, target);
  for (const auto& s : whole)
    all.add_implementation(repaired(t, target, s.moves));
  for (const auto& s : whole)
    for (const auto& other : in_other_ways(t, target, s))
      all.add_implementation(other);
  all.expand();
  return all.take();
}

}  // namespace cudal1
