// Groups the verdicts of proposals and updates the policy; saves each version and publishes it to the generator.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/interfaces.hpp"
#include "policy/search/policy.hpp"

namespace cudal1 {

struct learner_state {
  static constexpr const char* name = "learner";
  learner_actor::pointer self = nullptr;
  std::unique_ptr<policy> student;
  store_actor store;
  generator_actor generator;
  std::size_t group_size = 8;

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
  void publish();
};

// To be spawned detached.
learner_actor::behavior_type run_learner(learner_actor::stateful_pointer<learner_state> self,
                                         std::shared_ptr<std::unique_ptr<policy>> student, store_actor store,
                                         generator_actor generator, std::size_t group_size);

}  // namespace cudal1
