#include "policy/search/schedule_space.hpp"

#include <set>

#include "policy/search/starting_schedules.hpp"

namespace cudal1 {

namespace {

class enumeration {
 public:
  enumeration(const lowering_target& target, std::size_t most) : target_(&target), most_(most) {}

  // False when the space is full.
  bool add(const schedule_builder& at) {
    const auto made = at.lowered_program();
    if (!made || !programs_.insert(program_id(*made)).second) return true;
    if (found_.schedules.size() == most_) return found_.is_complete = false;
    found_.schedules.push_back(at.moves());
    return true;
  }

  // Every combination of decisions from the `next`-th one on.
  bool expand(const schedule_builder& at, std::size_t next) {
    const auto kinds = moves_of(move_phase::tuning);
    const std::size_t groups = at.state().groups().size();
    if (next == kinds.size() * groups) return add(at);
    if (!expand(at, next + 1)) return false;
    const move_kind& kind = *kinds[next % kinds.size()];
    const std::string group = std::to_string(next / kinds.size());
    for (const auto& m : kind.candidates(at.state(), *target_)) {
      if (m.parameters.empty() || m.parameters.front() != std::pair<std::string, std::string>("group", group)) continue;
      schedule_builder with = at;
      if (with.add(m) && !expand(with, next + 1)) return false;
    }
    return true;
  }

  schedule_space take() { return std::move(found_); }

 private:
  const lowering_target* target_;
  std::size_t most_;
  schedule_space found_;
  std::set<std::string> programs_;
};

}  // namespace

schedule_space space_of(const task& t, const lowering_target& target, std::size_t most) {
  enumeration all(target, most);
  all.add(schedule_builder(t, target));
  for (const auto& s : whole_schedules(t, target))
    if (!all.expand(repaired(t, target, s.moves), 0)) break;
  return all.take();
}

}  // namespace cudal1
