// The compilers of all machines: a program is given to a machine that compiles for its target and has the most room,
// and to another one if that machine is lost. Part of the coordinator's actor, on which all of it runs.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/messages/interfaces.hpp"

namespace cudal1 {

class compile_pool {
 public:
  // `timeout`: of a request to a machine, longer than any compilation there may take.
  void begin(coordinator_actor::pointer self, duration timeout);

  // A machine has joined, or joins again.
  void add(const std::string& machine, const agent_actor& agent, int64_t slots, std::set<std::string> targets);
  // A machine is lost: what it had is given to others.
  void remove(const std::string& machine);
  // How many programs all of them compile at a time.
  int64_t workers() const;
  // Waits until there is a machine for its target. Errors as for kernel_compiler; errc::infrastructure if machines fail
  // again and again.
  caf::result<shared_code> compile(const message::compile& m);

 private:
  struct job {
    message::compile what;
    caf::typed_response_promise<shared_code> promise;
    uint64_t number = 0;  // in the order of the requests
    int failures = 0;
  };
  using job_pointer = std::shared_ptr<job>;
  struct machine {
    agent_actor agent;
    int64_t slots = 0;
    std::set<std::string> targets;
    std::set<job_pointer> running;
  };

  void hand_out();
  machine* best_for(const std::string& target);
  void start(machine& on, const job_pointer& j);
  // False if the machine does not have the job any more.
  bool end(const std::string& machine, const job_pointer& j);
  void failed(const job_pointer& j, error e);

  coordinator_actor::pointer self_ = nullptr;
  duration timeout_{0};
  std::map<std::string, machine> machines_;
  std::map<std::string, std::deque<job_pointer>> waiting_;  // by target
  uint64_t last_number_ = 0;
};

}  // namespace cudal1
