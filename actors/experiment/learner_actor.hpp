// Has the rewards of each complete group computed and stored, and updates the policy; saves each version and publishes
// it to the generator.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages/interfaces.hpp"
#include "policy/search/policy.hpp"

namespace cudal1 {

struct learner_setup {
  store_actor store;
  generator_actor generator;
  auditor_actor auditor;
  std::string experiment;
  int64_t saved_version = 0;  // of the experiment's own state in the store
};

struct learner_state : learner_setup {
  static constexpr const char* name = "learner";
  learner_actor::pointer self = nullptr;
  std::unique_ptr<policy> student;
  std::optional<message::policy_version> unsaved;
  bool saving = false;

  caf::result<message::done> learn(const message::learn& m);

 private:
  using done_promise = caf::typed_response_promise<message::done>;
  void rewarded(const message::learn& group, const reward_record& rewards, done_promise promise);
  // Whether the policy changed.
  expected<bool> update(const message::learn& group, const reward_record& rewards);
  // Saves the student's state, then sends it to the generator. One at a time; what could not be saved is saved with the
  // next version.
  void publish();
  void save();
};

// To be spawned detached.
learner_actor::behavior_type run_learner(learner_actor::stateful_pointer<learner_state> self,
                                         const std::shared_ptr<std::unique_ptr<policy>>& student, learner_setup setup);

}  // namespace cudal1
