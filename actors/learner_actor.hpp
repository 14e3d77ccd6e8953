// Groups the verdicts of proposals and updates the policy; saves each version and publishes it to the generator.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/interfaces.hpp"
#include "policy/search/policy.hpp"

namespace cudal1 {

struct learner_setup {
  store_actor store;
  generator_actor generator;
  std::size_t group_size = 8;
  std::string experiment;
  int64_t saved_version = 0;  // of the experiment's own state in the store
};

struct learner_state : learner_setup {
  static constexpr const char* name = "learner";
  learner_actor::pointer self = nullptr;
  std::unique_ptr<policy> student;
  std::optional<message::policy_version> unsaved;
  bool saving = false;

  // Experiences of one task until the group is full; `what` keeps the task that they point to.
  struct group {
    shared_task what;
    std::vector<experience> items;
  };
  std::map<std::string, group> groups;

  expected<message::done> learn(const message::learn& m);
  // Learns from the groups that are not full, except single experiences, which have nothing to be compared with.
  expected<message::done> learn_rest();
  expected<bool> learn_from_group(group& g);
  // Saves the student's state, then sends it to the generator. One at a time; what could not be saved is saved with the
  // next version.
  void publish();
  void save();
};

// To be spawned detached.
learner_actor::behavior_type run_learner(learner_actor::stateful_pointer<learner_state> self,
                                         std::shared_ptr<std::unique_ptr<policy>> student, learner_setup setup);

}  // namespace cudal1
