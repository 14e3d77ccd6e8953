// Which of a node's actors died, and what follows from it. Plain logic, no actor. Not thread-safe: the node's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace cudal1 {

class supervision {
 public:
  enum class role {
    device,      // its leases come back, and it gets another actor
    experiment,  // it ends, and the next start of the node goes on with it
    own_part     // nothing goes on without it: the node ends
  };
  struct child {
    role what = role::own_part;
    std::string name;  // of the device, id of the experiment
  };

  // `id`: of the actor, unique in this process.
  void watch(uint64_t id, child c);
  // The child with that id, which is watched no longer; nothing for an actor that was not.
  std::optional<child> died(uint64_t id);
  // Counts a death of a device's actor: whether it gets another, and does not die again and again.
  bool may_restart(const std::string& device);

 private:
  std::map<uint64_t, child> children_;
  std::map<std::string, int> deaths_;  // by device
};

}  // namespace cudal1
