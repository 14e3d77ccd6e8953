// One experiment: takes each variant from the proposal to the acknowledged verdict. Turns of its tasks and budget are
// kept by a ledger.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
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
  // An infrastructure fault ended the attempt: it is stored as lost, and the variant is tried again.
  void lose(slot_id id, const std::string& note, std::optional<done_promise> promise);
  void drop(slot_id id);
  void later(std::function<void()> what) { later_.push_back(std::move(what)); }
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
  std::map<std::size_t, std::set<std::string>> tried_;  // by task: ids of its variants, with any outcome
  std::deque<given_variant> given_;
  std::deque<std::function<void()>> later_;  // run with the next tick
  clock::time_point saved_{};
  bool stopping_ = false, keep_running_ = false, ended_ = false, device_gone_ = false;
  int failed_proposals_ = 0;
  int lessons_ = 0;            // requests that the learner has not answered
  bool learned_rest_ = false;  // the last groups were sent to it
  std::string problem_;
};

experiment_actor::behavior_type run_experiment(experiment_actor::stateful_pointer<experiment_flow> self,
                                               const std::shared_ptr<experiment_setup>& setup);

}  // namespace cudal1
