// One experiment: takes each variant from the proposal to the acknowledged verdict. Turns of its tasks and budget are
// kept by a ledger.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/experiment_setup.hpp"
#include "actors/interfaces.hpp"
#include "actors/ledger.hpp"

namespace cudal1 {

class experiment_flow {
 public:
  static constexpr const char* name = "experiment";
  using done_promise = caf::typed_response_promise<message::done>;

  void begin(experiment_actor::pointer self, experiment_setup setup);
  caf::result<message::done> work_done(const message::work_done& m);
  experiment_progress progress() const;
  expected<message::done> stop(const message::stop_experiment& m);
  void policy_restarted(const message::policy_restarted& m);
  void device_given_up(const message::device_given_up& m);
  void tick();

 private:
  using clock = std::chrono::steady_clock;
  static constexpr duration store_timeout{std::chrono::minutes(1)};
  static constexpr duration policy_timeout{std::chrono::minutes(2)};
  // One variant in progress.
  struct slot {
    std::size_t task = 0;
    variant_record variant;
    shared_program program;
    std::string problem;
    attempt_record attempt;
    shared_code code;
    std::map<std::string, double> stage_ms;  // before the device
    int tries = 0;
    int losses = 0;  // in a row
    bool proposing = false, offered = false;
    clock::time_point since{};  // start of its current stage
  };
  using slot_id = uint64_t;

  // ---- turns and the end: experiment_actor.cpp
  void fill();
  void take_given();
  // It should end: by a request, a deadline or a problem.
  bool is_ending() const { return stopping_ || books_->out_of_time(clock::now()); }
  // Ends it before its budget is used up.
  void end_early(const std::string& problem, bool keep_running);
  // Abandons what does not end although the experiment should: a device or a policy hangs, or the store cannot be
  // written. Nothing acknowledged is lost; the attempts run again when the experiment is resumed.
  void abandon_rest();
  void save();
  void check_end();
  void run_delayed();
  void note_store_error(const error& e);

  // ---- one evaluation: experiment_evaluation.cpp
  void propose(slot_id id);
  void proposed(slot_id id, message::proposed p);
  void no_proposal(slot_id id, const error& e);
  void reserve(slot_id id);
  void not_reserved(slot_id id, const error& e);
  void reserved(slot_id id, const attempt_record& a);
  void compile(slot_id id);
  void not_compiled(slot_id id, const error& e);
  void offer(slot_id id);
  // Commits a verdict that needs no device.
  void judge_without_device(slot_id id, outcome result, std::string reason, std::string log = "");
  void commit(slot_id id, verdict v, const environment& where, std::optional<done_promise> promise);
  void not_committed(slot_id id, const verdict& v, const environment& where, std::optional<done_promise>& promise,
                     error e);
  void settled(slot_id id, const verdict& v);
  void log(const slot& s, const verdict& v) const;
  // An infrastructure fault ended the attempt: it is stored as lost, and the variant is tried again; after a while, if
  // the variant cannot be the cause.
  void lose(slot_id id, const std::string& note, store::loss where);
  void lost(slot_id id, store::loss where);
  // A replay device has no verdict of the variant: the attempt ends, and its evaluation is returned to the budget.
  void not_recorded(slot_id id, const std::string& why);
  void drop(slot_id id);
  void end_stage(slot& s, const char* stage);
  void note(const char* kind, const slot& s, const std::string& text);
  std::vector<slot_id> slots_where(bool slot::*flag) const;
  bool exists(slot_id id) const { return slots_.contains(id); }
  std::optional<slot_id> find(const attempt_record& a) const;

  // Calls `what` with the first tick after the delay, if the slot still exists.
  void later(slot_id id, std::function<void()> what, std::chrono::milliseconds delay = {}) {
    delayed_.push_back({clock::now() + delay, id, std::move(what)});
  }
  // Asks for a slot; the answer is ignored if the slot was abandoned.
  template <class Reply, class Destination, class Message, class Then, class Else>
  void ask_for(slot_id id, const Destination& destination, duration timeout, Message m, Then then, Else otherwise) {
    ask<Reply>(
        self_, destination, timeout, std::move(m),
        [this, id, then](Reply& reply) mutable {
          if (exists(id)) then(reply);
        },
        [this, id, otherwise](const error& e) mutable {
          if (exists(id)) otherwise(e);
        });
  }
  // Asks the store for a change. While it cannot be written, progress says why.
  template <class Reply, class Message, class Then, class Else>
  void ask_store(Message m, Then then, Else otherwise) {
    ask<Reply>(
        self_, setup_.store, store_timeout, std::move(m),
        [this, then](Reply& reply) mutable {
          store_problem_.clear();
          then(reply);
        },
        [this, otherwise](error e) mutable {
          note_store_error(e);
          otherwise(std::move(e));
        });
  }
  // Asks the learner; the experiment does not end before it has answered.
  template <class Message>
  void teach(Message m) {
    ++lessons_;
    ask<message::done>(
        self_, setup_.policy->get().learner, policy_timeout, std::move(m), [this](const message::done&) { taught(); },
        [this](const error& e) {
          spdlog::warn("experiment {}: the learner did not learn: {}", books_->record().id, e.message);
          taught();
        });
  }
  void taught() {
    --lessons_;
    check_end();
  }

  experiment_actor::pointer self_ = nullptr;
  experiment_setup setup_;
  std::optional<ledger> books_;
  std::map<slot_id, slot> slots_;
  slot_id last_slot_ = 0;
  double last_commit_ms_ = 0;
  std::deque<given_variant> given_;
  struct delayed_call {
    clock::time_point when;
    slot_id slot;
    std::function<void()> what;
  };
  std::vector<delayed_call> delayed_;
  clock::time_point saved_{};
  std::string store_problem_;  // "" while the store can be written
  clock::time_point store_failed_since_{};
  std::optional<clock::time_point> ending_since_;
  bool stopping_ = false, keep_running_ = false, ended_ = false, device_gone_ = false;
  int failed_proposals_ = 0;
  clock::time_point failed_proposals_since_{};
  int lessons_ = 0;            // requests that the learner has not answered
  bool learned_rest_ = false;  // the last groups were sent to it
  std::string problem_;
};

experiment_actor::behavior_type run_experiment(experiment_actor::stateful_pointer<experiment_flow> self,
                                               const std::shared_ptr<experiment_setup>& setup);

}  // namespace cudal1
