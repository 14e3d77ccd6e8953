// One per process: starts and supervises the other actors, and answers the clients. Its decisions are made by plain
// classes: device_roster, device_holds, work_queue (leases), supervision; experiment_starter starts experiments.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/device_actor.hpp"
#include "actors/device_holds.hpp"
#include "actors/device_roster.hpp"
#include "actors/experiment_actor.hpp"
#include "actors/experiment_starter.hpp"
#include "actors/interfaces.hpp"
#include "actors/node_options.hpp"
#include "actors/supervision.hpp"
#include "actors/work_queue.hpp"

namespace cudal1 {

class node_state {
 public:
  static constexpr const char* name = "node";

  void begin(node_actor::pointer self, node_setup setup);

  // Devices.
  void offer(const message::work_item& item);
  void idle(const message::device_idle& m);
  void extend(const message::long_evaluation& m) { queue_->extend(m.lease, std::chrono::milliseconds(m.limit_ms)); }
  void device_changed(const message::device_state_changed& m);
  caf::result<message::done> work_done(const message::work_done& m);
  caf::result<node_status> await_devices();

  // Experiments (node_actor_experiments.cpp).
  caf::result<message::started> start(const message::start_experiment& m);
  caf::result<message::done> resume();
  caf::result<message::progress_answer> progress(const message::progress_query& m);
  caf::result<message::done> stop(const message::stop_experiment& m);
  caf::result<message::node_metrics> metrics();
  std::vector<attempt_record> withdraw(const std::string& experiment) { return queue_->withdraw(experiment); }
  void experiment_ended(const message::experiment_ended& m);

  // Clients that hold a device (node_actor_holds.cpp).
  expected<device_hold> hold(const message::hold_device& m);
  expected<message::done> release(const message::release_device& m);
  caf::result<message::done> keep_baseline(const message::keep_baseline& m);

  expected<node_status> status() const;
  caf::result<message::done> drain();
  void tick();
  void down(const caf::down_msg& m);
  void end(const caf::error& reason);

 private:
  struct device_entry {
    device_actor actor;
    std::shared_ptr<device_control> control;
  };
  // The actors that plan and judge for devices of one kind, with that kind's settings.
  struct judges {
    verifier_actor verifier;
    profiler_actor profiler;
    auditor_actor auditor;
  };
  struct experiment_entry {
    experiment_actor actor;  // these two are empty once it has ended
    std::shared_ptr<policy_handles> policy;
    experiment_record record;
    std::optional<message::experiment_ended> last;
  };
  using done_promise = caf::typed_response_promise<message::done>;

  // Spawns an actor that the node cannot do without.
  template <caf::spawn_options Options = caf::no_spawn_options, class Function, class... Arguments>
  auto spawn_required_actor(Function run, Arguments&&... arguments) {
    auto part = self_->spawn<Options + caf::monitored>(run, std::forward<Arguments>(arguments)...);
    supervision_.watch(part.id(), {supervision::role::required_actor, ""});
    return part;
  }
  void spawn_judges(const std::string& device);
  device_setup setup_of_device(const std::string& device) const;
  void spawn_device(const std::string& device);
  void hand_out();
  void lease_lost(const message::work_done& m);
  void device_died(const std::string& device);
  // Its leases end, and their attempts are lost.
  void drop_leases(const std::string& device, const std::string& why);
  void device_failed(const std::string& device, const error& problem);
  void answer_awaiting();
  void check_drained();

  expected<void> launch(experiment_setup setup);
  void policy_died(const std::string& experiment, uint64_t actor);
  void end_policy(const policy_handles& policy);
  void experiment_died(const std::string& id, caf::actor_id actor, const error& why);
  void forget_experiment(const std::string& id, message::experiment_ended last);
  expected<void> check_unused(const std::string& device) const;
  expected<task> task_of_baseline(const message::keep_baseline& m) const;

  node_actor::pointer self_ = nullptr;
  node_setup setup_;
  store_actor store_;
  std::map<std::string, compiler_actor> compilers_;  // by architecture
  std::map<std::string, judges> judges_;             // by kind of device
  std::map<std::string, device_entry> device_actors_;
  device_roster devices_;
  device_holds holds_;
  supervision supervision_;
  experiment_starter starter_;
  std::map<std::string, experiment_entry> experiments_;  // of this process; ended ones keep their last progress
  std::optional<work_queue> queue_;
  std::vector<message::work_done> lost_;  // leases whose loss an experiment has yet to acknowledge
  std::vector<caf::typed_response_promise<node_status>> awaiting_;
  std::vector<done_promise> draining_;
  bool ending_ = false;
};

node_actor::behavior_type run_node(node_actor::stateful_pointer<node_state> self,
                                   const std::shared_ptr<node_setup>& setup);

}  // namespace cudal1
