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
    bool offered = false;
    clock::time_point since{};  // start of its current stage
  };
  using slot_id = uint64_t;

  void fill();
  void take_given();
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
  void settled(slot_id id, const verdict& v);
  // An infrastructure fault ended the attempt: it is stored as lost, and the variant is tried again; after a while, if
  // the variant cannot be the cause.
  void lose(slot_id id, const std::string& note, store::loss where);
  void lost(slot_id id, store::loss where);
  void drop(slot_id id);
  void later(std::function<void()> what, std::chrono::milliseconds delay = {}) {
    later_.push_back({clock::now() + delay, std::move(what)});
  }
  // The store has answered a change, or has failed to. While it fails, progress says why.
  void store_answered() { store_problem_.clear(); }
  void store_failed(const error& e);
  // Whether what the store cannot take is abandoned: the experiment should end, and the store has failed for a while.
  // Nothing acknowledged is lost; the attempts run again when the experiment is resumed.
  bool may_abandon() const;
  // The policy cannot go on: the experiment ends, and the next node resumes it.
  void end_without_policy(const std::string& problem);
  void end_stage(slot& s, const char* stage);
  void note(const char* kind, const slot& s, const std::string& text);
  void save();
  void check_end();
  void learn_rest();
  slot* find(slot_id id);
  std::optional<slot_id> find(const attempt_record& a) const;

  experiment_actor::pointer self_ = nullptr;
  experiment_setup setup_;
  std::optional<ledger> books_;
  std::map<slot_id, slot> slots_;
  slot_id last_slot_ = 0;
  double last_commit_ms_ = 0;
  std::deque<given_variant> given_;
  struct delayed {
    clock::time_point when;
    std::function<void()> what;
  };
  std::deque<delayed> later_;  // run with the first tick after their time
  clock::time_point saved_{};
  std::string store_problem_;  // "" while the store can be written
  clock::time_point store_failed_since_{};
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
