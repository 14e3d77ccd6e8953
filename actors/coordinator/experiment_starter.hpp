// Starts experiments: loads each from the store, step by step, and passes it to the coordinator.
// Part of the coordinator's actor, on which all of it runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/agent/node_options.hpp"
#include "actors/coordinator/compile_pool.hpp"
#include "actors/coordinator/device_holds.hpp"
#include "actors/coordinator/device_roster.hpp"
#include "actors/experiment/experiment_setup.hpp"
#include "actors/experiment/proposal_threads.hpp"
#include "actors/messages/interfaces.hpp"
#include "policy/search/policy_registry.hpp"

namespace cudal1 {

// The answer to a request about an experiment that does not run.
error not_running(const std::string& experiment);

class experiment_starter {
 public:
  using started_promise = caf::typed_response_promise<message::started>;
  using done_promise = caf::typed_response_promise<message::done>;
  // Owned by the coordinator, which also owns the starter.
  struct surroundings {
    coordinator_actor::pointer node = nullptr;
    store_actor store;
    const node_options* options = nullptr;
    const device_roster* devices = nullptr;
    const device_holds* holds = nullptr;
    const compile_pool* compilers = nullptr;
    std::shared_ptr<cudal1::store> records;  // the same store, for reading
    std::function<auditor_actor(const std::string& device)> auditor_for;
    // Called with the id of each policy actor and its experiment.
    std::function<void(uint64_t actor, const std::string& experiment)> watch_policy;
    std::function<expected<void>(experiment_setup)> launch;  // an error if it is too late
    std::function<void()> start_ended;                       // called when a start has failed
    std::shared_ptr<proposal_threads> workers;               // of all policies
  };

  void begin(surroundings s) { context_ = std::move(s); }
  // How many variants an experiment on these devices prepares or measures at a time.
  int64_t credit_for(const std::string& devices) const;
  // The number of starts in progress.
  int starting() const { return starting_; }

  // Starts a new experiment, or (with an id) resumes one. The promise is answered when it is launched or has failed.
  void start(const message::start_experiment& m, started_promise p);
  // Resumes the experiments that ran when the last node ended; those whose machines are not here yet, once they are.
  void resume(done_promise p);
  // A device has become ready.
  void device_ready();
  // Why an experiment that should run does not run yet; "" if none of that id waits.
  std::string why_waiting(const std::string& experiment) const;
  // Spawns the actors of a policy in its stored state.
  void start_policy(const experiment_record& record,
                    const std::function<void(expected<policy_handles::pair>)>& started);
  // Marks an experiment that this node does not run as cancelled.
  void cancel(const std::string& experiment, done_promise p);

 private:
  using given_variants = std::vector<given_variant>;

  // Each step runs when the store has answered the previous one.
  expected<void> begin_start(message::start_experiment m, const started_promise& p);
  expected<void> begin_resume(const std::string& experiment, uint64_t hold, const started_promise& p);
  // The records of a new search: one for each model of its devices, which differ in that only.
  expected<std::vector<experiment_record>> records_of(const message::start_experiment& m) const;
  // The names of the devices that a record's experiment may use now; errc::infrastructure if there are none.
  expected<std::string> devices_of(const experiment_record& record) const;
  void keep_tasks(message::start_experiment m, std::vector<task_record> tasks, started_promise p);
  void create(const message::start_experiment& m, started_promise p);
  void load(const std::string& id, given_variants given, started_promise p);
  expected<experiment_setup> prepare(message::loaded_experiment all, given_variants given) const;
  void add_policy(experiment_setup setup, started_promise p);
  expected<policy_setup> policy_setup_of(const experiment_record& record) const;
  expected<policy_handles::pair> spawn_policy(const experiment_record& record,
                                              const message::policy_version& state) const;
  void launch(experiment_setup setup, started_promise p);
  void refuse(const std::string& id, started_promise& p, error e);

  void resume_next(std::vector<message::start_experiment> left, const std::function<void()>& ended);
  void choose_model(experiment_record& record) const;
  expected<void> check_ready(const experiment_record& record, uint64_t hold) const;
  void cancel_hand_written(experiment_record record);

  surroundings context_;
  int starting_ = 0;
  struct waiting_experiment {
    message::start_experiment what;
    std::string why;
  };
  std::map<std::string, waiting_experiment> waiting_;  // to be resumed once a device is ready, by id
};

}  // namespace cudal1
