// One each process: starts and watches the other actors, owns the leases, and speaks for the process to its clients.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/cores.hpp"
#include "actors/device_actor.hpp"
#include "actors/experiment_actor.hpp"
#include "actors/interfaces.hpp"
#include "actors/work_queue.hpp"
#include "config/configuration.hpp"
#include "sandbox/device/device_names.hpp"
#include "store/store.hpp"

namespace cudal1 {

struct node_device : found_device {
  std::string problem;  // why it cannot be used at all, where nothing compiles for it
};

struct node_options {
  std::string data;                              // folder
  configuration settings;                        // of the node
  std::map<std::string, configuration> of_kind;  // of each kind of device: the same with other defaults
  std::vector<node_device> devices;
  std::string worker;  // path of cudal1-worker; "" finds it beside this program
  core_layout cores;
  int compile_workers = 1;
  std::chrono::milliseconds lease_limit{std::chrono::minutes(5)};
};

// What a node needs from its process.
struct node_setup {
  node_options options;
  std::shared_ptr<store> db;
  std::map<std::string, std::shared_ptr<kernel_compiler>> compilers;  // by architecture
  // Called, from an actor's thread, when the node cannot go on: the process should end.
  std::function<void(const std::string&)> fatal;
};

// A task as the store keeps it.
task_record record_of(const task& t);

class node_state {
 public:
  static constexpr const char* name = "node";
  using time_point = work_queue::time_point;

  void begin(node_actor::pointer self, node_setup setup);

  void offer(const message::work_item& item);
  void idle(const message::device_idle& m);
  void device_changed(const message::device_state_changed& m);
  caf::result<message::done> work_done(const message::work_done& m);
  void experiment_ended(const message::experiment_ended& m);

  caf::result<message::started> start(const message::start_experiment& m);
  caf::result<message::progress_answer> progress(const message::progress_query& m);
  caf::result<message::done> stop(const message::stop_experiment& m);
  expected<device_hold> hold(const message::hold_device& m);
  expected<message::done> release(const message::release_device& m);
  caf::result<message::done> keep_baseline(const message::keep_baseline& m);
  expected<node_status> status() const;
  caf::result<node_status> await_devices();
  caf::result<message::done> resume();
  caf::result<message::done> drain();
  void tick();
  void down(const caf::down_msg& m);
  void end(const caf::error& reason);

 private:
  struct device_entry {
    node_device what;
    device_actor actor;
    std::shared_ptr<device_control> control;
    device_report report;
    bool ready = false, given_up = false;
    std::string error_code, problem;
    int deaths = 0;
  };
  struct device_order {
    bool operator()(const std::string& a, const std::string& b) const { return comes_before(a, b); }
  };
  // What thinks about devices of one kind, by that kind's settings.
  struct judges {
    verifier_actor verifier;
    profiler_actor profiler;
    auditor_actor auditor;
  };
  struct experiment_entry {
    experiment_actor actor;  // these three are empty once it has ended
    generator_actor generator;
    learner_actor learner;
    std::string device;
    std::optional<message::experiment_ended> last;
  };
  using started_promise = caf::typed_response_promise<message::started>;
  using done_promise = caf::typed_response_promise<message::done>;

  using given_variants = std::vector<given_variant>;

  const configuration& settings_of(const std::string& device) const;
  void spawn_judges(const std::string& kind, const configuration& settings);
  void spawn_device(const node_device& device);
  void hand_out();
  void lease_lost(const message::work_done& m);
  void device_gone(const std::string& device);
  void device_failed(const std::string& device, const std::string& code, const std::string& problem);
  bool any_usable(const std::string& devices) const;
  expected<std::string> choose_devices(const std::string& wanted) const;
  void forget_experiment(const std::string& id, message::experiment_ended last);
  void answer_awaiting();
  void check_drained();

  // The steps of starting an experiment; each goes on when the store has answered the last (node_experiments.cpp).
  expected<void> begin_start(message::start_experiment m, started_promise p);
  void keep_tasks(message::start_experiment m, std::vector<task_record> tasks, started_promise p);
  void create(message::start_experiment m, started_promise p);
  void load(const std::string& id, given_variants given, started_promise p);
  expected<experiment_setup> prepare_setup(message::loaded_experiment all, given_variants given) const;
  void add_policy(experiment_setup setup, started_promise p);
  expected<void> spawn_policy(experiment_setup& setup, const message::policy_version& state);
  void launch(experiment_setup setup, started_promise p);
  void refuse(const std::string& id, started_promise& p, error e);
  void resume_next(std::vector<message::start_experiment> left, done_promise p);
  void cancel_by_hand(experiment_record record);
  // Whether an experiment on these devices would use one that is held by another client (node_holds.cpp).
  expected<void> check_not_held(const std::string& devices, uint64_t own) const;
  expected<task> task_of_baseline(const message::keep_baseline& m) const;

  node_actor::pointer self_ = nullptr;
  node_setup setup_;
  store_actor store_;
  std::map<std::string, compiler_actor> compilers_;  // by architecture
  std::map<std::string, judges> judges_;             // by kind of device
  std::map<std::string, device_entry, device_order> devices_;
  std::map<std::string, experiment_entry> experiments_;  // of this process; ended ones keep their last progress
  int starting_ = 0;                                     // not yet under way
  std::vector<message::work_done> lost_;                 // that an experiment has yet to acknowledge
  std::map<uint64_t, std::string> holds_;                // device by hold
  uint64_t last_hold_ = 0;
  std::optional<work_queue> queue_;
  std::vector<caf::typed_response_promise<node_status>> awaiting_;
  std::vector<caf::typed_response_promise<message::done>> draining_;
  bool ending_ = false;
};

node_actor::behavior_type run_node(node_actor::stateful_pointer<node_state> self,
                                   const std::shared_ptr<node_setup>& setup);

}  // namespace cudal1
