#include "policy/search/exhaustive_policy.hpp"

#include "policy/search/schedule_space.hpp"

namespace cudal1 {

expected<proposal> exhaustive_policy::propose_one(const prompt& p) {
  CUDAL1_CHECK(check_prompt(p));
  if (const auto steps = p.what->reference.text.steps.size(); steps > most_steps_of_a_space)
    return fail(
        errc::not_found,
        "task {} has {} steps; policy exhaustive is for tasks of at most {}, such as parts (`cudal1 run --parts`)",
        p.what->name, steps, most_steps_of_a_space);
  std::shared_ptr<walk> w;
  {
    const std::lock_guard lock(mutex_);
    auto& known = walks_[{p.what->id, p.target}];
    if (known == nullptr) known = std::make_shared<walk>();
    w = known;
  }
  const std::lock_guard lock(w->used);
  if (!w->is_enumerated) {
    auto space = space_of(*p.what, *p.target, most_schedules_of_a_space);
    for (std::size_t i = space.schedules.size(); i-- > 1;)  // the first is what every variant is compared with
      w->left.emplace_back(std::move(space.schedules[i]), std::move(space.programs[i]));
    w->size = w->left.size();
    w->is_complete = space.is_complete;
    w->is_enumerated = true;
  }
  const known_variants known(p);
  while (!w->left.empty()) {
    auto [plan, program] = std::move(w->left.back());
    w->left.pop_back();
    if (known.has_program(program)) continue;
    if (known.may_be_too_large()) {
      const auto made = lower(*p.what, plan, *p.target);
      if (made && known.is_too_large(made->checked)) continue;
    }
    proposal out;
    out.plan = std::move(plan);
    return out;
  }
  return fail(errc::not_found, "all {} schedules of task {} were proposed{}", w->size, p.what->name,
              w->is_complete ? "" : "; it has more, and policy exhaustive takes no more of them");
}

}  // namespace cudal1
