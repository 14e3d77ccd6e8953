#include "sandbox/interpreter/lane_plan.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace cudal1 {

namespace {

constexpr int none = -1;

// The memory that a step reads and writes, by index. A view has the index of the memory that it views.
struct memory_use {
  std::vector<int> reads, writes;
  bool allocates = false;
  bool has_work = true;
};

class use_reader {
 public:
  explicit use_reader(const checked_program& p) : program_(p) {}

  memory_use of(std::size_t i) {
    return std::visit([&](const auto& s) { return of(s, i); }, program_.text.steps[i]);
  }

 private:
  int memory_of(const std::string& name) {
    const auto viewed = program_.view_of.find(name);
    const auto& base = viewed == program_.view_of.end() ? name : viewed->second;
    return memories_.emplace(base, static_cast<int>(memories_.size())).first->second;
  }

  memory_use of(const alloc_step& s, std::size_t) {
    return {.reads = {}, .writes = {memory_of(s.name)}, .allocates = true, .has_work = false};
  }

  memory_use of(const launch_step& s, std::size_t) {
    memory_use use;
    for (const auto& a : s.args) {
      if (a.kind == argument_kind::in || a.kind == argument_kind::inout) use.reads.push_back(memory_of(a.tensor));
      if (a.kind == argument_kind::out || a.kind == argument_kind::inout) use.writes.push_back(memory_of(a.tensor));
    }
    return use;
  }

  memory_use of(const aten_step& s, std::size_t i) {
    memory_use use;
    for (const auto& argument : program_.calls[i].arguments) {
      if (const auto* t = std::get_if<tensor_argument>(&argument)) use.reads.push_back(memory_of(t->name));
      if (const auto* many = std::get_if<std::vector<tensor_argument>>(&argument))
        for (const auto& item : *many)
          if (!item.name.empty()) use.reads.push_back(memory_of(item.name));
    }
    const auto& results = program_.results[i];
    use.has_work = std::ranges::any_of(results, [](const operator_result& r) { return !r.view_of; });
    for (std::size_t r = 0; r < results.size(); ++r)
      if (!results[r].view_of && !s.results[r].empty()) use.writes.push_back(memory_of(s.results[r]));
    return use;
  }

  const checked_program& program_;
  std::map<std::string, int> memories_;
};

class lane_planner {
 public:
  explicit lane_planner(const checked_program& p)
      : program_(p), limit_(static_cast<std::size_t>(p.text.how.lanes)), lanes_(limit_) {}

  lane_plan run() {
    plan_.steps.resize(program_.text.steps.size());
    over_.resize(plan_.steps.size());
    use_reader reader(program_);
    std::vector<memory_use> uses;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i)
      uses.push_back(reader.of(i));
    for (std::size_t i = 0; i < uses.size(); ++i)
      if (uses[i].has_work) place(static_cast<int>(i), steps_before(static_cast<int>(i), uses[i]));
    place_allocations(uses);
    plan_.lanes =
        std::max(1, static_cast<int>(std::ranges::count_if(lanes_, [](const lane& l) { return l.last != none; })));
    return std::move(plan_);
  }

 private:
  struct lane {
    int last = none;  // step
    int steps = 0;
  };
  struct memory {
    int writer = none;
    std::vector<int> readers;  // since it was written
  };
  // For each lane, the last step that has ended at some moment.
  using progress = std::vector<int>;

  std::size_t lane_of(int step) const {
    return static_cast<std::size_t>(plan_.steps[static_cast<std::size_t>(step)].lane);
  }
  const progress& when_over(int step) const { return over_[static_cast<std::size_t>(step)]; }
  static void advance(progress& to, const progress& with) {
    for (std::size_t l = 0; l < to.size(); ++l)
      to[l] = std::max(to[l], with[l]);
  }

  // The steps that must end before step i begins, latest first.
  std::set<int, std::greater<>> steps_before(int i, const memory_use& use) {
    std::set<int, std::greater<>> before;
    for (const int m : use.reads)
      before.insert(memories_[m].writer);
    for (const int m : use.writes) {
      before.insert(memories_[m].writer);
      before.insert(memories_[m].readers.begin(), memories_[m].readers.end());
    }
    for (const int m : use.reads)
      memories_[m].readers.push_back(i);
    for (const int m : use.writes)
      memories_[m] = {i, {}};
    before.erase(none);
    before.erase(i);
    return before;
  }

  std::size_t choose_lane(const std::set<int, std::greater<>>& before) const {
    for (const int step : before)
      if (lanes_[lane_of(step)].last == step) return lane_of(step);
    progress known(limit_, none);
    for (const int step : before)
      advance(known, when_over(step));
    for (std::size_t l = 0; l < limit_; ++l)  // a lane whose steps must all end before this one anyway
      if (lanes_[l].last != none && known[l] >= lanes_[l].last) return l;
    for (std::size_t l = 0; l < limit_; ++l)
      if (lanes_[l].last == none) return l;
    const auto fewest = static_cast<std::size_t>(std::ranges::min_element(lanes_, {}, &lane::steps) - lanes_.begin());
    if (before.empty()) return fewest;
    const std::size_t operands = lane_of(*before.begin());
    return lanes_[operands].steps == lanes_[fewest].steps ? operands : fewest;
  }

  void place(int i, const std::set<int, std::greater<>>& before) {
    const std::size_t l = choose_lane(before);
    auto& step = plan_.steps[static_cast<std::size_t>(i)];
    step.lane = static_cast<int>(l);
    progress known = lanes_[l].last == none ? progress(limit_, none) : when_over(lanes_[l].last);
    for (const int earlier : before) {
      if (known[lane_of(earlier)] >= earlier) continue;  // ensured by the lane's order or another wait
      auto& event = plan_.steps[static_cast<std::size_t>(earlier)].event;
      if (event == no_event) event = plan_.events++;
      step.waits.push_back(event);
      advance(known, when_over(earlier));
    }
    known[l] = i;
    over_[static_cast<std::size_t>(i)] = std::move(known);
    lanes_[l] = {i, lanes_[l].steps + 1};
  }

  // New memory may have to be poisoned, so an allocation goes into the lane of its first user.
  void place_allocations(const std::vector<memory_use>& uses) {
    std::map<int, int> first_lane;
    for (std::size_t i = uses.size(); i-- > 0;) {
      if (uses[i].allocates) {
        const auto user = first_lane.find(uses[i].writes.front());
        plan_.steps[i].lane = user == first_lane.end() ? 0 : user->second;
      } else if (uses[i].has_work) {
        for (const auto* list : {&uses[i].reads, &uses[i].writes})
          for (const int m : *list)
            first_lane[m] = plan_.steps[i].lane;
      }
    }
  }

  const checked_program& program_;
  std::size_t limit_;
  std::vector<lane> lanes_;
  std::map<int, memory> memories_;
  std::vector<progress> over_;  // for each step, the progress when it ends
  lane_plan plan_;
};

}  // namespace

lane_plan plan_lanes(const checked_program& p) {
  return lane_planner(p).run();
}

}  // namespace cudal1
