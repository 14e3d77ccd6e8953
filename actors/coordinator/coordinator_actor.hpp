// One per cluster: the store, the experiments, the machines that have joined and the leases of their devices; it
// answers the clients. Its decisions are made by plain classes: membership, device_roster, device_holds, work_queue
// (leases), compile_pool, supervision; experiment_starter starts experiments.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/agent/node_options.hpp"
#include "actors/agent/supervision.hpp"
#include "actors/coordinator/compile_pool.hpp"
#include "actors/coordinator/device_holds.hpp"
#include "actors/coordinator/device_roster.hpp"
#include "actors/coordinator/experiment_starter.hpp"
#include "actors/coordinator/membership.hpp"
#include "actors/coordinator/work_queue.hpp"
#include "actors/experiment/experiment_actor.hpp"
#include "actors/messages/interfaces.hpp"

namespace cudal1 {

class coordinator_state {
 public:
  static constexpr const char* name = "node";

  void begin(coordinator_actor::pointer self, node_setup setup);
  coordinator_actor::pointer self() const { return self_; }

  // Machines (coordinator_machines.cpp).
  expected<message::joined> join(const message::join& m, const agent_actor& agent);
  expected<message::done> heartbeat(const message::heartbeat& m);
  expected<message::done> leave(const message::leave& m);
  expected<message::done> drain_machine(const message::drain_machine& m);
  template <class Reply, class Question>
  caf::result<Reply> ask_store(const Question& m) {
    return self_->delegate(store_, m);
  }
  caf::result<message::blob_part> read_blob(const message::read_blob& m) { return self_->delegate(blob_reader_, m); }
  caf::result<shared_code> compile(const message::compile& m) { return compilers_.compile(m); }

  // Devices and leases.
  void offer(const message::work_item& item);
  void idle(const message::device_idle& m);
  void extend(const message::long_evaluation& m) { queue_->extend(m.lease, std::chrono::milliseconds(m.limit_ms)); }
  void device_changed(const message::device_state_changed& m);
  void device_died(const message::device_died& m);
  caf::result<message::done> work_done(message::work_done&& m);
  caf::result<node_status> await_devices();

  // Experiments (coordinator_experiments.cpp).
  caf::result<message::started> start(const message::start_experiment& m);
  caf::result<message::done> resume();
  caf::result<message::progress_answer> progress(const message::progress_query& m);
  caf::result<message::done> stop(const message::stop_experiment& m);
  caf::result<message::node_metrics> metrics();
  // The rule also spares the experiments that run.
  caf::result<prune_report> prune(message::prune_store m);
  std::vector<attempt_record> withdraw(const std::string& experiment) { return queue_->withdraw(experiment); }
  void experiment_ended(const message::experiment_ended& m);

  // Clients that hold a device (coordinator_holds.cpp).
  expected<device_hold> hold(const message::hold_device& m);
  expected<message::done> release(const message::release_device& m);
  expected<message::done> begin_baseline(const message::begin_baseline& m);
  expected<message::baseline_answer> baseline(const message::baseline_query& m) const;
  caf::result<message::done> keep_baseline(const message::keep_baseline& m);
  caf::result<message::done> keep_judged_file(const message::keep_judged_file& m);

  caf::result<node_status> status();
  caf::result<message::done> drain();
  void tick();
  void down(const caf::down_msg& m);
  void end(const caf::error& reason);

 private:
  struct machine {
    agent_actor agent;
    std::string version;
    std::set<std::string> known_tasks;  // that it has been told of in this membership
  };
  struct experiment_entry {
    experiment_actor actor;  // these two are empty once it has ended
    std::shared_ptr<policy_handles> policy;
    experiment_record record;
    std::optional<message::experiment_ended> last;
  };
  // What a client that holds a device has measured there.
  struct baseline_entry {
    std::string device;
    uint64_t number = 0;  // of the measurement
    shared_task what;
    bool compares = false;  // the task with its model, instead
    std::optional<expected<baseline_times>> result;
  };
  using done_promise = caf::typed_response_promise<message::done>;

  // Spawns an actor that the node cannot do without.
  template <caf::spawn_options Options = caf::no_spawn_options, class Function, class... Arguments>
  auto spawn_required_actor(Function run, Arguments&&... arguments) {
    auto part = self_->spawn<Options + caf::monitored>(run, std::forward<Arguments>(arguments)...);
    supervision_.watch(part.id(), {supervision::role::required_actor, ""});
    return part;
  }
  void spawn_local_agent();
  bool may_use(const experiment_entry& e, const std::string& device) const {
    return names_device(e.record.device, device) && devices_.at(device).what.model == e.record.model;
  }
  const agent_actor& agent_of(const std::string& device) const;
  std::vector<uint64_t> take_over_leases(const message::join& m);
  std::vector<message::judging_settings> judging() const;
  void machine_lost(const std::string& machine, const std::string& why);
  void take_from_idle(const std::string& machine);
  void watch_machines();
  void tell_experiments_of_devices();
  void hand_out();
  void lease_lost(const message::work_done& m);
  // A device's leases end, and their attempts are lost.
  void drop_leases(const std::string& device, const std::string& why, attempt_loss where);
  // `on_device`: unless it had been measured already.
  void lose(const work_queue::lease& lost, const std::string& why, attempt_loss where);
  void device_failed(const std::string& device, const error& problem);
  node_status status_without_processes() const;
  void answer_awaiting();
  void check_drained();

  expected<void> launch(experiment_setup setup);
  void policy_died(const std::string& experiment, uint64_t actor);
  void end_policy(const policy_handles& policy);
  void experiment_died(const std::string& id, caf::actor_id actor, const error& why);
  void forget_experiment(const std::string& id, message::experiment_ended last);
  expected<void> check_ready(const std::string& device) const;
  expected<void> check_unused(const std::string& device) const;
  expected<task> task_of_baseline(uint64_t hold, const std::string& text) const;
  static expected<task> task_on(const std::string& device, const std::string& text);
  template <class M>
  caf::result<message::done> keep_with_task(const task& t, const std::string& its_task, M record);
  void baseline_ended(uint64_t hold, uint64_t number, expected<baseline_times> result);
  // The same; first stores that a task agrees with its model.
  void baseline_came(uint64_t hold, uint64_t number, baseline_times times);
  // Measurements of PyTorch on devices of a machine that is lost.
  void lose_baselines(const std::string& machine, const std::string& why);

  coordinator_actor::pointer self_ = nullptr;
  node_setup setup_;
  store_actor store_;
  blob_reader_actor blob_reader_;
  housekeeper_actor housekeeper_;
  std::map<std::string, auditor_actor> auditors_;  // of groups' rewards, by kind of device
  std::map<std::string, machine> machines_;        // by name; "": this one
  std::optional<membership> members_;
  compile_pool compilers_;
  device_roster devices_;
  device_holds holds_;
  std::map<uint64_t, baseline_entry> baselines_;  // the last one of each hold
  uint64_t last_baseline_ = 0;
  supervision supervision_;
  experiment_starter starter_;
  std::map<std::string, experiment_entry> experiments_;  // of this process; ended ones keep their last progress
  std::optional<work_queue> queue_;
  std::vector<message::work_done> lost_;  // leases whose loss an experiment has yet to acknowledge
  std::vector<caf::typed_response_promise<node_status>> awaiting_;
  std::vector<done_promise> draining_;
  bool ending_ = false;
};

coordinator_actor::behavior_type run_coordinator(coordinator_actor::stateful_pointer<coordinator_state> self,
                                                 const std::shared_ptr<node_setup>& setup);

}  // namespace cudal1
