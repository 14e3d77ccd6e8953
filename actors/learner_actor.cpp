#include "actors/learner_actor.hpp"

#include "actors/machine_devices.hpp"

namespace cudal1 {

namespace {
constexpr duration store_timeout{std::chrono::seconds(30)};
constexpr std::size_t least_group = 2;
}  // namespace

expected<message::done> learner_state::learn(const message::learn& m) {
  // A variant that crashed its worker, or that a loaded machine could not time, says nothing about the policy; nor does
  // a hand-written one.
  const bool is_informative = m.result != outcome::quarantined && m.result != outcome::unmeasurable;
  if (!is_informative || m.variant.schedule.empty()) return message::done{false};
  CUDAL1_TRY(const lowering_target* target, lowering_target_of(m.device));
  CUDAL1_TRY(schedule plan, parse_schedule(m.variant.schedule));
  auto& g = groups[m.what->id];
  if (!g.what) g.what = m.what;
  g.items.push_back({&*g.what, target, std::move(plan), m.variant.trace, m.result, m.score});
  if (g.items.size() < group_size) return message::done{false};
  CUDAL1_TRY(const bool changed, learn_from_group(g));
  if (changed) publish();
  return message::done{changed};
}

expected<bool> learner_state::learn_from_group(group& g) {
  const std::vector<experience> items = std::move(g.items);
  g.items.clear();
  return student->learn(items);
}

expected<message::done> learner_state::learn_rest() {
  bool any = false;
  for (auto& [task, g] : groups) {
    if (g.items.size() < least_group) continue;
    CUDAL1_TRY(const bool changed, learn_from_group(g));
    any = any || changed;
  }
  if (any) publish();
  return message::done{any};
}

void learner_state::publish() {
  unsaved = message::policy_version{student->version(), student->save(), 0};
  save();
}

void learner_state::save() {
  if (saving || !unsaved) return;
  saving = true;
  const message::policy_version version = *unsaved;
  // On disk first: a generator never proposes from a version that could be lost.
  ask<message::done>(
      self, store, store_timeout,
      message::save_policy{student->name(), experiment, version.version, saved_version, version.blob},
      [this, version](const message::done&) {
        saving = false;
        saved_version = version.version;
        self->send(generator, version);
        if (unsaved->version == version.version)
          unsaved.reset();
        else
          save();
      },
      [this, version](const error& e) {
        saving = false;
        spdlog::error("learner: version {} of policy {} was not stored: {}", version.version, student->name(),
                      e.message);
      });
}

learner_actor::behavior_type run_learner(learner_actor::stateful_pointer<learner_state> self,
                                         std::shared_ptr<std::unique_ptr<policy>> student, learner_setup setup) {
  prepare(self);
  auto& s = self->state;
  s.self = self;
  s.student = std::move(*student);
  static_cast<learner_setup&>(s) = std::move(setup);
  return {
      [&s](const message::learn& m) { return reply_or_error(s.name, [&] { return s.learn(m); }); },
      [&s](const message::learn_rest&) { return reply_or_error(s.name, [&] { return s.learn_rest(); }); },
  };
}

}  // namespace cudal1
