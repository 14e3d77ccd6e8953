// A machine's agent: starts and supervises its devices, its compilers and those who judge beside them, and speaks for
// them to the coordinator. Where that is another machine's, the agent joins, and joins again after a connection broke;
// its devices finish what they have meanwhile, and keep the results.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/agent/baseline_actor.hpp"
#include "actors/agent/blob_fetcher.hpp"
#include "actors/agent/cluster_link.hpp"
#include "actors/agent/device_actor.hpp"
#include "actors/agent/node_options.hpp"
#include "actors/agent/result_spool.hpp"
#include "actors/agent/supervision.hpp"
#include "actors/messages/interfaces.hpp"
#include "sandbox/device/device_names.hpp"

namespace cudal1 {

struct agent_setup {
  node_options options;
  std::map<std::string, std::shared_ptr<kernel_compiler>> compilers;  // by architecture
  make_baseline_measurer make_baselines;
  std::string name;               // of this machine; "": the coordinator's own
  std::string version;            // of the program
  coordinator_actor coordinator;  // of this process; if there is none:
  coordinator_address address;
  // Called, from the actor's thread, when the agent cannot continue: its process should end.
  std::function<void(const std::string&)> fatal;
};

class agent_state {
 public:
  static constexpr const char* name = "agent";

  void begin(agent_actor::pointer self, agent_setup setup);

  // From the coordinator.
  void know(const message::know_task& m);
  void take(const message::work_item& item);
  void cancel(const message::cancel_call& m);
  void hold(const message::device_held& m);
  caf::result<baseline_times> measure_baseline(message::measure_baseline m);  // this and its parts: agent_baselines.cpp
  caf::result<shared_code> compile(const message::compile& m);
  message::machine_processes processes() const;

  // From the devices.
  void idle(const message::device_idle& m);
  void extend(const message::long_evaluation& m);
  void device_changed(message::device_state_changed m);
  caf::result<message::done> work_done(const message::work_done& m);

  // From those who judge, for the coordinator's store.
  template <class Reply, class Question>
  caf::result<Reply> pass_on(const Question& m) {
    if (!coordinator_) return to_caf(no_coordinator());
    return self_->delegate(coordinator_, m);
  }

  caf::result<message::done> retire();
  void tick();
  void down(const caf::down_msg& m);
  void end(const caf::error& reason);

 private:
  using clock = std::chrono::steady_clock;
  struct known_task {
    shared_task what;
    std::set<std::string> missing;  // blobs
    std::string problem;            // why one cannot be had; "" if all can
  };
  struct device_entry {
    device_actor actor;
    std::shared_ptr<device_control> control;
    std::optional<message::device_state_changed> last;
    bool held = false;
  };
  // The actors that plan and judge for devices of one kind.
  struct judges {
    verifier_actor verifier;
    profiler_actor profiler;
    auditor_actor auditor;
    verification_options verification;  // with which they were started
  };
  // Who measures PyTorch and compares models on a device, from the first time on.
  struct baseline_entry {
    baseline_actor actor;
    std::shared_ptr<baseline_cancel> cancel;
    int64_t asked = 0;  // that it has not answered: meanwhile the device gets no evaluation
  };
  // A measurement or a comparison that waits for blobs, or for the end of the device's evaluations.
  struct baseline_job {
    message::measure_baseline what;
    std::set<std::string> missing;
    caf::typed_response_promise<baseline_times> promise;
  };
  using done_promise = caf::typed_response_promise<message::done>;

  bool is_local() const { return setup_.name.empty(); }
  std::string full(const std::string& device) const { return device_on(setup_.name, device); }
  error no_coordinator() const;

  // Membership.
  void connect();
  void join(const coordinator_actor& to);
  void joined(const coordinator_actor& to, const message::joined& m);
  void parted(const std::string& why);
  void try_again_later();
  void beat();
  void announce_leave();
  void check_retired();

  // Parts.
  template <caf::spawn_options Options = caf::no_spawn_options, class Function, class... Arguments>
  auto spawn_required_actor(Function run, Arguments&&... arguments) {
    auto part = self_->spawn<Options + caf::monitored>(run, std::forward<Arguments>(arguments)...);
    supervision_.watch(part.id(), {supervision::role::required_actor, ""});
    return part;
  }
  void spawn_compilers();
  void spawn_devices(const std::vector<message::judging_settings>& settings);
  void end_devices();
  void spawn_judges(const message::judging_settings& settings);
  void spawn_device(const std::string& device);
  device_setup setup_of_device(const std::string& device) const;
  void device_failed(const std::string& device, const error& problem);
  void device_died(const std::string& device);
  void tell_of_hold(const std::string& device);

  // Work.
  void blob_ended(const std::string& name, const expected<void>& how);
  void hand_out_waiting();
  void hand_to_device(message::work_item item, const known_task& of);
  void refuse_work(const message::work_item& item, const std::string& why);
  void acknowledged(uint64_t lease);
  bool is_ready(const known_task& of, const std::string& device) const {
    return of.missing.empty() && !measures_baseline(device);
  }
  void send_left_results();

  // PyTorch.
  // errc::refused if this machine does not execute that model.
  expected<void> may_execute(const baseline_request& wanted) const;
  std::set<std::string> missing_blobs(const message::measure_baseline& m) const;
  void baseline_blob_ended(const std::string& blob, const expected<void>& how);
  void begin_ready_baselines();
  expected<void> spawn_baseline(const std::string& device);
  void begin_baseline(baseline_job job);
  error ended_early(const message::measure_baseline& m) const;
  void baseline_answered(const std::string& device);
  bool measures_baseline(const std::string& device) const;
  // Kills what is measured there.
  void end_baselines(const std::string& device);

  agent_actor::pointer self_ = nullptr;
  agent_setup setup_;
  uint64_t incarnation_ = 0;
  coordinator_actor coordinator_;  // none while this machine is not joined
  uint64_t epoch_ = 0;
  bool connecting_ = false, retiring_ = false, ending_ = false;
  int attempts_ = 0;  // to join, in a row
  clock::time_point next_attempt_{}, next_beat_{};
  std::chrono::milliseconds heartbeat_{1000}, failure_{5000};

  std::map<std::string, compiler_actor> compilers_;  // by target
  std::map<std::string, judges> judges_;             // by kind of device
  std::map<std::string, device_entry> devices_;
  std::string settings_;  // by which the judges were started, as text
  supervision supervision_;

  std::map<std::string, known_task> tasks_;  // by id
  std::optional<blob_fetcher> fetcher_;
  std::deque<message::work_item> waiting_;     // for the blobs of their tasks, or for a device that measures PyTorch
  std::map<uint64_t, std::string> in_flight_;  // leases whose end is not acknowledged, and their devices
  std::map<uint64_t, done_promise> reporting_;
  std::optional<result_spool> spool_;            // if the coordinator is another process
  std::map<uint64_t, message::work_done> left_;  // by lease: results that an earlier process of this machine left
  bool sending_left_ = false;
  std::vector<done_promise> retired_;
  std::map<std::string, baseline_entry> baselines_;  // by device
  std::vector<baseline_job> baseline_jobs_;
};

agent_actor::behavior_type run_agent(agent_actor::stateful_pointer<agent_state> self,
                                     const std::shared_ptr<agent_setup>& setup);

}  // namespace cudal1
