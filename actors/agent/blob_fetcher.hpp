// Copies blobs from the coordinator's machine to this one: part by part, verified by their names. One at a time; part
// of the agent's actor, on which all of it runs.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "actors/messages/interfaces.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

class blob_fetcher {
 public:
  // `ended` is called with each blob that is here, or with the reason why it cannot be had.
  using result = std::function<void(const std::string& name, const expected<void>& how)>;
  blob_fetcher(agent_actor::pointer self, const std::string& data, result ended);

  // Wants a blob, which is not here.
  void want(const std::string& name);
  // The coordinator to ask, from now on. What was begun begins again.
  void connected(const coordinator_actor& coordinator);
  void disconnected();

 private:
  void next();
  void ask_for_part();
  expected<void> add(const message::blob_part& part);
  void end(const expected<void>& how);
  std::string unfinished() const { return folder_ + "/" + wanted_.front(); }

  agent_actor::pointer self_;
  blobs kept_;
  std::string folder_;  // of unfinished ones
  result ended_;
  coordinator_actor from_;
  std::deque<std::string> wanted_;  // the first is being copied, if there is a coordinator
  int64_t offset_ = 0;              // of the next part
  uint64_t connection_ = 0;         // counts them, so that late answers are known
};

}  // namespace cudal1
