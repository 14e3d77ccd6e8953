#include "actors/experiment/learner_actor.hpp"

#include "actors/agent/machine_devices.hpp"

namespace cudal1 {

namespace {
constexpr duration auditor_timeout{std::chrono::seconds(30)};
constexpr std::size_t least_group = 2;  // one alone has nothing to be compared with

// The members whose verdicts say something about the policy: not one that crashed its worker, or that a loaded machine
// could not time.
message::learn informative(message::learn m) {
  std::erase_if(m.members, [](const message::learned_member& each) {
    return each.result.result == outcome::quarantined || each.result.result == outcome::unmeasurable;
  });
  return m;
}

expected<experience> experience_of(const message::learned_member& m, const message::learn& group) {
  experience e;
  e.what = group.what.value;
  CUDAL1_TRY(e.target, lowering_target_of(group.device));
  e.group = group.group.id;
  e.variant = m.variant.id;
  if (!m.variant.schedule.empty()) {
    CUDAL1_TRY(e.plan, parse_schedule(m.variant.schedule));
  }
  e.program = m.variant.program;
  e.trace = m.variant.trace;
  e.policy_version = m.variant.policy_version;
  e.log_probability = m.variant.log_probability;
  e.result = m.result.result;
  e.score = m.result.score;
  e.score_interval = m.result.score_interval;
  return e;
}

}  // namespace

caf::result<message::done> learner_state::learn(const message::learn& m) {
  auto promise = self->make_response_promise<message::done>();
  message::learn group = informative(m);
  if (m.group.id.empty() || group.members.size() < least_group) {
    promise.deliver(message::done{false});
    return promise;
  }
  message::reward_group question;
  question.group = group.group.id;
  question.experiment = experiment;
  question.task = group.what->id;
  question.policy_version = group.group.policy_version;
  for (const auto& each : group.members)
    question.members.push_back(reward_member_of(each.result));
  ask<message::rewards>(
      self, auditor, auditor_timeout, std::move(question),
      [this, group = std::move(group), promise](const message::rewards& r) mutable {
        rewarded(group, r.record, promise);
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
  return promise;
}

// On disk first, so that what the policy learned from can be audited.
void learner_state::rewarded(const message::learn& group, const reward_record& rewards, done_promise promise) {
  ask<message::done>(
      self, store, store_timeout, message::put_rewards{rewards},
      [this, group, rewards, promise](const message::done&) mutable {
        const auto changed = exceptions_as_errors(name, [&] { return update(group, rewards); });
        if (!changed) return static_cast<void>(promise.deliver(to_caf(changed.error())));
        if (*changed) publish();
        promise.deliver(message::done{*changed});
      },
      [promise](error e) mutable { promise.deliver(to_caf(std::move(e))); });
}

expected<bool> learner_state::update(const message::learn& group, const reward_record& rewards) {
  if (rewards.rewards.size() != group.members.size())
    return fail(errc::infrastructure, "group {}: there are {} rewards for {} variants", group.group.id,
                rewards.rewards.size(), group.members.size());
  std::vector<experience> items;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    CUDAL1_TRY(auto e, experience_of(group.members[i], group));
    e.reward = rewards.rewards[i];
    items.push_back(std::move(e));
  }
  return student->learn(items);
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
                                         const std::shared_ptr<std::unique_ptr<policy>>& student, learner_setup setup) {
  prepare(self);
  auto& s = self->state;
  s.self = self;
  s.student = std::move(*student);
  static_cast<learner_setup&>(s) = std::move(setup);
  return {
      [&s](const message::learn& m) { return s.learn(m); },
  };
}

}  // namespace cudal1
