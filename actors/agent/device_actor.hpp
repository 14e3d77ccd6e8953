// The owner of one device: pulls a prepared evaluation when idle and runs it from the first check to the audited
// verdict. Everything on the device is serial.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/agent/cores.hpp"
#include "actors/messages/interfaces.hpp"
#include "sandbox/device/session.hpp"
#include "sandbox/verify/null_models.hpp"

namespace cudal1 {

// Lets other threads cancel the call in which a device's actor is blocked, and see the process ids. Thread-safe.
class device_control {
 public:
  void attach(device_session* session);
  void detach();
  void cancel();
  std::map<std::string, std::vector<int>> processes() const;

 private:
  mutable std::mutex mutex_;
  device_session* session_ = nullptr;
};

struct device_setup {
  session_options session;
  verification_options verification;  // for judging the draws of the timing pool
  core_layout cores;
  std::shared_ptr<device_control> control;
  agent_actor agent;
  verifier_actor verifier;
  profiler_actor profiler;
  auditor_actor auditor;
};

class device_state {
 public:
  static constexpr const char* name = "device";
  ~device_state();

  void begin(device_actor::pointer self, device_setup setup);
  void take(const message::work_item& item);
  void held(const message::device_held& m);
  void tick();

 private:
  // The evaluation in progress.
  struct evaluation {
    message::work_item item;
    verdict draft;
    check_plan plan;
    check_report checked;
    double reference_ms = 0;
    bool is_correct = false;
    std::optional<message::timing_step> first_step;
    timing_report timed;      // all reports together
    int64_t asked_pairs = 0;  // since the pool was renewed
  };

  // Runs one step of the evaluation; an exception in it is an infrastructure fault of that evaluation.
  template <class Step>
  void guarded(Step step) {
    try {
      step();
    } catch (const std::exception& e) {
      const error problem{errc::infrastructure, std::string("the device's actor threw: ") + e.what()};
      if (!now_) return spdlog::error("device {}: {}", setup_.session.device, problem.message);
      fault(problem, fault_origin::device);
    }
  }
  // Asks the verifier, profiler or auditor, and continues with the reply; without one the attempt is lost. A reply for
  // an evaluation that has ended is ignored.
  template <class Reply, class Destination, class Message, class Next>
  void consult(const Destination& destination, Message m, Next next) {
    const auto is_current = [this, lease = now_->item.lease] { return now_ && now_->item.lease == lease; };
    ask<Reply>(
        self_, destination, std::chrono::minutes(1), std::move(m),
        [this, next, is_current](Reply& reply) {
          if (is_current()) guarded([&] { next(reply); });
        },
        [this, is_current](const error& e) {
          if (is_current()) guarded([&] { fault(e, fault_origin::node); });
        });
  }

  void start_session();
  expected<std::unique_ptr<device_session>> start_on_its_cores() const;
  void start_failed(const error& e);
  environment where() const;  // what verdicts say of it
  void tell_ready();
  void pull();

  void open();
  // In place of all following steps, if the session replays stored verdicts.
  void answer_from(verdict_recording& recording);
  void not_recorded(const error& e);
  void ask_for_time(double reference_ms);
  void check(check_plan plan);
  void judge(check_report report);
  void time_if_correct();
  void time(const message::timing_step& step);
  void estimate(const message::timing_step& step);
  void check_if_suspicious(verdict v);
  // False if the evaluation ended there.
  bool note_null_models();
  void add_timing(const timing_report& r);
  void add_notes(const std::vector<std::string>& notes);  // to the verdict, without duplicates
  void finish(verdict v);
  // Where an infrastructure fault came from: another part of the node (the store cannot be written), the device without
  // the variant, or the device while the variant was resident on it, so that it may be the cause.
  enum class fault_origin { node, device, variant };
  void fault(const error& e, fault_origin origin, bool task_refused = false);
  // Queues a result for the node; the device continues with the next evaluation while the result is being stored.
  void report_to_node(message::work_done m);
  void report_first();
  void forget_tasks();
  // After a fault: if the session does not work any more, drops it, so that it is started again.
  void probe();
  // Asks the session whether something else disturbs the device, and tells the node when that begins and ends. True if
  // the device takes no work now.
  bool is_disturbed();
  void end_session();
  // Adds the milliseconds since `from` to a stage of the evaluation.
  void add_stage(const char* stage, std::chrono::steady_clock::time_point from);

  device_actor::pointer self_ = nullptr;
  device_setup setup_;
  std::unique_ptr<device_session> session_;
  std::unique_ptr<evaluation> now_;
  std::map<std::string, std::optional<null_report>> null_reports_;  // by task
  std::deque<message::work_done> unreported_;  // the first is sent with each tick until the node acknowledges it
  bool report_in_flight_ = false, report_failed_ = false;
  int start_failures_ = 0, faults_in_a_row_ = 0;
  bool given_up_ = false, held_ = false, disturbed_ = false;
  std::chrono::steady_clock::time_point trouble_asked_{};
  std::chrono::steady_clock::time_point next_start_{};
};

// To be spawned detached.
device_actor::behavior_type run_device(device_actor::stateful_pointer<device_state> self, device_setup setup);

}  // namespace cudal1
