// The node's handling of experiments: start, progress, stop, end.
#include <algorithm>

#include "actors/coordinator/coordinator_actor.hpp"

namespace cudal1 {

namespace {
constexpr duration reply_timeout{std::chrono::seconds(10)};
}

caf::result<message::started> coordinator_state::start(const message::start_experiment& m) {
  auto promise = self_->make_response_promise<message::started>();
  if (ending_) {
    promise.deliver(to_caf({errc::cancelled, "the node is ending"}));
  } else if (const auto known = experiments_.find(m.experiment); known != experiments_.end() && known->second.actor) {
    promise.deliver(message::started{m.experiment});
  } else {
    starter_.start(m, promise);
  }
  return promise;
}

caf::result<message::done> coordinator_state::resume() {
  auto promise = self_->make_response_promise<message::done>();
  starter_.resume(promise);
  return promise;
}

expected<void> coordinator_state::launch(experiment_setup setup) {
  if (ending_) return fail(errc::cancelled, "the node is ending");
  const std::string id = setup.record.id;
  auto& entry = experiments_[id];
  entry.last.reset();
  entry.policy = setup.policy;
  entry.record = setup.record;
  queue_->set_weight(id, weight_of(setup.record.priority));
  int64_t verdicts = 0;
  for (const auto& t : setup.tallies)
    verdicts += t.evaluations;
  spdlog::info("experiment {}: {} tasks, policy {}, {} verdicts so far, {} given variants", id, setup.tasks.size(),
               setup.record.policy, verdicts, setup.given.size());
  entry.actor = self_->spawn<caf::monitored>(run_experiment, std::make_shared<experiment_setup>(std::move(setup)));
  supervision_.watch(entry.actor.id(), {supervision::role::experiment, id});
  return {};
}

caf::result<message::progress_answer> coordinator_state::progress(const message::progress_query& m) {
  auto promise = self_->make_response_promise<message::progress_answer>();
  const auto found = experiments_.find(m.experiment);
  if (found == experiments_.end()) {
    const auto why = starter_.why_waiting(m.experiment);
    promise.deliver(to_caf(
        why.empty()
            ? not_running(m.experiment)
            : error{errc::infrastructure, fmt::format("experiment {} waits for its devices: {}", m.experiment, why)}));
  } else if (const auto& last = found->second.last) {
    promise.deliver(message::progress_answer{last->last, true, last->problem});
  } else {
    ask<experiment_progress>(
        self_, found->second.actor, reply_timeout, m,
        [promise](experiment_progress& now) mutable {
          promise.deliver(message::progress_answer{std::move(now), false, ""});
        },
        [this, id = m.experiment, promise](error e) mutable {
          // It may have ended meanwhile: then its last message came before this error.
          if (const auto& end = experiments_[id].last) {
            promise.deliver(message::progress_answer{end->last, true, end->problem});
          } else {
            promise.deliver(to_caf(std::move(e)));
          }
        });
  }
  return promise;
}

caf::result<message::done> coordinator_state::stop(const message::stop_experiment& m) {
  auto promise = self_->make_response_promise<message::done>();
  const auto found = experiments_.find(m.experiment);
  if (found == experiments_.end()) {
    starter_.cancel(m.experiment, promise);  // one that could not be resumed
  } else if (!found->second.actor) {
    promise.deliver(message::done{});
  } else {
    ask<message::done>(
        self_, found->second.actor, reply_timeout, m,
        [promise](const message::done&) mutable { promise.deliver(message::done{}); },
        [this, id = m.experiment, promise](error e) mutable {
          if (experiments_[id].last) {
            promise.deliver(message::done{});
          } else {
            promise.deliver(to_caf(std::move(e)));
          }
        });
  }
  return promise;
}

caf::result<prune_report> coordinator_state::prune(message::prune_store m) {
  for (const auto& [id, entry] : experiments_)
    if (entry.actor) m.rule.in_use.push_back(id);
  return self_->delegate(store_, std::move(m));
}

void coordinator_state::experiment_ended(const message::experiment_ended& m) {
  spdlog::info("experiment {}: {}, {} evaluations in {:.1f} s{}{}", m.last.experiment, m.last.state, m.last.evaluations,
               m.last.active_s, m.problem.empty() ? "" : ": ", m.problem);
  forget_experiment(m.last.experiment, m);
}

void coordinator_state::experiment_died(const std::string& id, caf::actor_id actor, const error& why) {
  const auto& entry = experiments_[id];
  if (!entry.actor || entry.actor.id() != actor) return;  // it had ended, and may have been started again
  spdlog::error("node: the actor of experiment {} died: {}", id, why.message);
  message::experiment_ended last;
  last.last.experiment = id;
  last.last.state = enum_name(experiment_state::running);
  last.problem = "its actor died; the node's log says why, and the next node resumes it";
  forget_experiment(id, std::move(last));
}

void coordinator_state::end_policy(const policy_handles& policy) {
  const auto actors = policy.get();
  for (const uint64_t id : {actors.generator.id(), actors.learner.id()})
    supervision_.died(id);  // their ends are intended
  self_->send_exit(actors.generator, caf::exit_reason::user_shutdown);
  self_->send_exit(actors.learner, caf::exit_reason::user_shutdown);
}

// Both are started again, in the state that the store has.
void coordinator_state::policy_died(const std::string& experiment, uint64_t actor) {
  const auto& entry = experiments_[experiment];
  if (ending_ || !entry.actor || !entry.policy) return;
  const auto dead = entry.policy->get();
  if (dead.generator.id() != actor && dead.learner.id() != actor) return;
  end_policy(*entry.policy);
  if (!supervision_.may_restart("policy of " + experiment))
    return self_->send(entry.actor, message::policy_restarted{"the actors of its policy died repeatedly"});
  starter_.start_policy(entry.record, [this, experiment](expected<policy_handles::pair> started) {
    const auto& now = experiments_[experiment];
    if (!now.actor || !now.policy) return;
    message::policy_restarted m;
    if (started)
      now.policy->set(std::move(*started));
    else
      m.problem = "its policy cannot be started again: " + started.error().message;
    self_->send(now.actor, m);
  });
}

void coordinator_state::forget_experiment(const std::string& id, message::experiment_ended last) {
  auto& entry = experiments_[id];
  entry.last = std::move(last);
  entry.actor = nullptr;
  if (entry.policy) end_policy(*entry.policy);
  entry.policy = nullptr;
  queue_->withdraw(id);
  check_drained();
}

}  // namespace cudal1
