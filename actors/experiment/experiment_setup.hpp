// The parts of an experiment, read and checked: its tasks, its records in the store, and the given variants. Plain
// logic: the handles of other actors are only kept here.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/messages/interfaces.hpp"
#include "policy/search/policy_trouble.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

// A variant that this run did not propose: written by hand, or one whose attempt was lost when the last node died.
struct given_variant {
  variant_record variant;
  shared_program program;  // empty if the program is not legal; then `problem` says why
  std::string problem;
};

// The actors of an experiment's policy, and what it is. The node replaces them when one has died, then sends
// policy_restarted. Both run in the same process, so the handles need not be sent. Thread-safe.
class policy_handles {
 public:
  struct pair {
    generator_actor generator;
    learner_actor learner;
    policy_traits traits;
    std::shared_ptr<const policy_trouble> trouble = std::make_shared<policy_trouble>();
  };
  pair get() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void set(pair p) {
    const std::lock_guard lock(mutex_);
    now_ = std::move(p);
  }

 private:
  mutable std::mutex mutex_;
  pair now_;
};

struct experiment_setup {
  experiment_record record;
  std::vector<shared_task> tasks;     // in the order of record.tasks
  std::vector<tally_record> tallies;  // of the verdicts that the store has already
  std::vector<given_variant> given;
  store_actor store;
  compiler_actor compiler;
  std::string compile_target;
  coordinator_actor node;
  std::shared_ptr<policy_handles> policy;  // none if only given variants are evaluated
  environment where;                       // of a device that it runs on
  int64_t tensor_bytes = 0;                // that the device has for a variant's tensors; 0: unknown
  int64_t devices = 1;                     // that it runs on
  int64_t in_a_row = 1;                    // evaluations of a task in one turn
  int64_t credit = 2;                      // variants in preparation or on a device, at most
  bool second_looks = false;               // at possible bests that were not confirmed
  int proposals = 8;                       // in a row that bring nothing new, before a task is exhausted
  std::string reuse_class;                 // of environments whose verdicts are reused; "": none are
  std::vector<group_record> open_groups;   // of the last run, which the policy is asked for again
  std::map<std::string, int64_t> groups;   // how many each task has had, by its id
  answer_cost spent;                       // on the answers of all groups so far
  int64_t unrecorded_allowed = 100;        // in a row, by a device that replays, before a task ends
  duration compile_timeout{0};
  duration end_timeout{0};  // of what does not end although the experiment should
};

// Without duplicates, by id; `profile` is that of the devices. errc::not_found if the weights of one are not among the
// blobs.
expected<std::vector<task>> read_tasks(const std::vector<std::string>& texts, const std::string& profile,
                                       const blobs& kept);

// The variant of an experiment that is one hand-written program.
given_variant hand_written_variant(const experiment_record& created, std::string program, const std::string& origin);

// The setup of a stored experiment, without actors: `given` and the variants whose attempts were lost are evaluated
// first; one that is not a legal program for its task has its `problem`.
expected<experiment_setup> setup_of(message::loaded_experiment all, std::vector<given_variant> given);

}  // namespace cudal1
