// Which of a node's actors died, and what follows from it. Plain logic, no actor. Not thread-safe: for the node's actor
// only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace cudal1 {

class supervision {
 public:
  enum class role {
    device,         // its leases end, and it gets another actor
    experiment,     // it ends, and the next node resumes it
    policy,         // an experiment's generator or learner: both are started again
    required_actor  // the node cannot continue without it, and ends
  };
  struct child {
    role what = role::required_actor;
    std::string name;  // of the device, or id of the experiment
  };

  // `id`: of the actor. It is unique in this process only: an actor of another one may have the same.
  void watch(uint64_t id, child c);
  // The child with that id, which is no longer watched; nothing if it was not watched.
  std::optional<child> died(uint64_t id);
  // Counts a death of a device's actor or of a policy's; false if it has died too often to be restarted. `name`: the
  // device or the experiment.
  bool may_restart(const std::string& name);

 private:
  std::map<uint64_t, child> children_;
  std::map<std::string, int> deaths_;  // by name
};

}  // namespace cudal1
