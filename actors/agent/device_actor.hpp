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
#include "actors/agent/device_evaluation.hpp"
#include "actors/messages/interfaces.hpp"
#include "config/base/stopwatch.hpp"
#include "sandbox/device/device_turns.hpp"
#include "sandbox/device/session.hpp"

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
  int64_t tensor_bytes = 0;           // device_type::tensor_bytes
  verification_options verification;  // for judging the draws of the timing pool
  core_layout cores;
  std::shared_ptr<device_turns> turns;
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
  using fault_origin = device_evaluation::fault_origin;

  // Runs one step of the evaluation; an exception in it is an infrastructure fault of that evaluation.
  template <class Step>
  void guarded(Step step) {
    try {
      step();
    } catch (const std::exception& e) {
      const error problem{errc::infrastructure, std::string("the device's actor threw: ") + e.what()};
      if (!now_) return spdlog::error("device {}: {}", setup_.session.device, problem.message);
      carry_out(device_evaluation::lose{problem, fault_origin::device});
    }
  }
  // Tells the evaluation of an event, and carries out what follows.
  template <class Event, class... Facts>
  void tell(Event event, Facts&&... facts) {
    carry_out(((*now_).*event)(std::forward<Facts>(facts)...));
  }
  // Asks the verifier, profiler or auditor, and tells the evaluation the reply. One for an evaluation that has ended is
  // ignored.
  template <class Reply, class Destination, class Message, class Event>
  void consult(const Destination& destination, Message m, Event event) {
    const auto is_current = [this, lease = now_->item().lease] { return now_ && now_->item().lease == lease; };
    ask<Reply>(
        self_, destination, std::chrono::minutes(1), std::move(m),
        [this, event, is_current](Reply& reply) {
          if (is_current()) guarded([&] { tell(event, std::move(reply)); });
        },
        [this, is_current](const error& e) {
          if (is_current()) guarded([&] { tell(&device_evaluation::unanswered, e); });
        });
  }
  // Tells the evaluation what came of a call of the session, and how long it took.
  template <class T, class Event>
  void tell_result(expected<T> got, Event event, const stopwatch& took);

  void start_session();
  expected<std::unique_ptr<device_session>> start_on_its_cores() const;
  void start_failed(const error& e);
  environment where() const;  // what verdicts say of it
  void tell_ready();
  void pull();

  void carry_out(device_evaluation::effects all);
  void carry_out(const device_evaluation::open_task&);
  void carry_out(const device_evaluation::check&);
  void carry_out(const device_evaluation::check_null_models&);
  void carry_out(const device_evaluation::renew_pool&);
  void carry_out(const device_evaluation::time& e);
  void carry_out(const device_evaluation::check_again&);
  void carry_out(const device_evaluation::ask_for_plan&);
  void carry_out(const device_evaluation::ask_for_judgement&);
  void carry_out(const device_evaluation::ask_what_to_time&);
  void carry_out(device_evaluation::tell_times& e);
  void carry_out(device_evaluation::ask_for_audit& e);
  void carry_out(const device_evaluation::extend_lease& e);
  void carry_out(device_evaluation::finish& e);
  void carry_out(const device_evaluation::lose& e);
  // The variant on the session.
  resident_variant resident() const;
  // In place of all steps, if the session replays stored verdicts.
  void answer_from(verdict_recording& recording);
  void not_recorded(const error& e);
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

  device_actor::pointer self_ = nullptr;
  device_setup setup_;
  std::unique_ptr<device_session> session_;
  std::optional<device_evaluation> now_;                            // the evaluation in progress
  device_turns::turn turn_;                                         // for it
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
