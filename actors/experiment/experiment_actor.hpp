// One experiment: takes each variant from the proposal to the acknowledged verdict. Turns of its tasks and budget are
// kept by a ledger.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/experiment/evaluation.hpp"
#include "actors/experiment/experiment_setup.hpp"
#include "actors/experiment/ledger.hpp"
#include "actors/messages/interfaces.hpp"

namespace cudal1 {

class experiment_flow {
 public:
  static constexpr const char* name = "experiment";
  using done_promise = caf::typed_response_promise<message::done>;

  void begin(experiment_actor::pointer self, experiment_setup setup);
  caf::result<message::done> work_done(message::work_done&& m);
  void proposed(message::proposed&& m);
  experiment_progress progress() const;
  expected<message::done> stop(const message::stop_experiment& m);
  void policy_restarted(const message::policy_restarted& m);
  void device_given_up(const message::device_given_up& m);
  void devices_changed(const message::devices_changed& m);
  void tick();

 private:
  using clock = std::chrono::steady_clock;
  static constexpr duration store_timeout{std::chrono::minutes(1)};
  static constexpr duration policy_timeout{std::chrono::minutes(2)};
  using slot_id = uint64_t;
  using prompt_id = uint64_t;
  // One variant in progress, or one that the policy was asked for.
  struct slot {
    std::size_t task = 0;
    prompt_id prompt = 0;  // 0: it was given
    bool proposing = false;
    clock::time_point since{};            // when the policy was asked
    std::optional<evaluation> work;       // once there is a variant
    std::vector<done_promise> reporters;  // of its result, which are not answered yet
  };
  // What the policy was asked for with one prompt. It is over when the policy has delivered everything and no slot is
  // left.
  struct open_prompt {
    std::size_t task = 0;
    int64_t ticket = 0;          // 0 until the policy has been asked
    slot_id first = 0, end = 0;  // its slots have these numbers
    group_record group;
    bool delivered = false;  // no more proposals will come
    clock::time_point since{};
    std::vector<message::learned_member> members;
    answer_cost cost;
  };
  // A failed variant that the policy should repair.
  struct wanted_repair {
    std::size_t task = 0;
    std::string variant;
    int64_t round = 1;
  };

  // ---- turns and the end: experiment_actor.cpp
  void fill();
  bool has_credit() const;
  void take_given();
  void take_repairs();
  // Measures a possible best again, if it is time for that.
  bool take_second_look();
  // Keeps the program of a variant that may be measured again.
  void keep_if_hopeful(const slot& s);
  void ask_open_groups();
  // It should end: by a request, a deadline or a problem.
  bool is_ending() const { return stopping_ || books_->out_of_time(clock::now()); }
  // Ends it before its budget is used up.
  enum class afterwards { done, resumed_by_next_node };
  void end_early(const std::string& problem, afterwards then);
  // Abandons what does not end although the experiment should: a device or a policy hangs, or the store cannot be
  // written. Nothing acknowledged is lost; the attempts run again when the experiment is resumed.
  void abandon_rest();
  void save();
  void check_end();
  void run_delayed();
  void note_store_error(const error& e);

  // ---- prompts and proposals: experiment_prompts.cpp
  // Asks the policy for `count` proposals, each of which takes a slot and an evaluation that the ledger has given.
  void ask_policy(std::size_t task, message::propose question);
  message::propose question_for(std::size_t task);
  void asked(prompt_id id, const message::ticket& t);
  void not_asked(prompt_id id, const error& e);
  std::vector<slot_id> waiting_slots(prompt_id id) const;
  // The rest of its proposals will not come.
  void end_prompt(prompt_id id, const error& why);
  void no_proposal(slot_id id, const error& e);
  // A proposal that the experiment knows already.
  void repeated(slot_id id);
  void check_prompt(prompt_id id);
  void end_late_prompts(clock::time_point now);
  // Asks the policy about a suspicious variant, if it gives opinions.
  void ask_opinion(const slot& s, const verdict& v);
  void reset_islands_if_due(std::size_t task);
  void repair_if_possible(const slot& s, const verdict& v);
  // Notes how long devices have had nothing to do because the policy was thinking.
  void note_waiting();

  // ---- evaluations: experiment_evaluation.cpp
  // `what`: the variant of a slot that had none.
  enum class look { first, second };
  void begin_evaluation(slot_id id, given_variant what, look which = look::first);
  evaluation::surroundings surroundings_of(const slot& s) const;
  // Tells a slot's evaluation of an event, and carries out what follows.
  template <class Event, class... Facts>
  void tell(slot_id id, Event event, Facts&&... facts) {
    carry_out(id, ((*slots_.at(id).work).*event)(std::forward<Facts>(facts)...));
  }
  void carry_out(slot_id id, evaluation::effects all);
  void carry_out(slot_id id, const evaluation::reserve&);
  void carry_out(slot_id id, const evaluation::compile&);
  void carry_out(slot_id id, const evaluation::offer&);
  void carry_out(slot_id id, const evaluation::commit& e);
  void carry_out(slot_id id, const evaluation::end_attempt& e);
  void carry_out(slot_id id, const evaluation::wait& e);
  void carry_out(slot_id id, const evaluation::acknowledge&);
  void carry_out(slot_id id, const evaluation::refuse& e);
  void carry_out(slot_id id, const evaluation::count_fault&);
  void carry_out(slot_id id, const evaluation::refuse_task& e);
  void carry_out(slot_id id, const evaluation::settle& e);
  void carry_out(slot_id id, const evaluation::drop& e);
  void carry_out(slot_id id, const evaluation::repeat&);
  void carry_out(slot_id id, const evaluation::unrecorded& e);
  void drop(slot_id id);
  void settled(const slot& s, const verdict& v);
  void log(const slot& s, const verdict& v) const;
  void log_store_trouble(const std::string& what);
  // The experiment should end: evaluations that are not on a device yet are given up, and repeated if it is resumed.
  bool is_withdrawing() const;
  void withdraw_waiting();
  void note(const char* kind, const slot& s, const std::string& text);
  bool exists(slot_id id) const { return slots_.contains(id); }
  // With thousands of devices there are thousands of slots: none of these looks at all of them.
  std::optional<slot_id> find(const attempt_record& a) const;
  slot take(slot_id id);
  std::vector<slot_id> slots_of(const open_prompt& p) const;
  // What the policy was asked for has come, or will not come.
  void end_proposing(slot& s);

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
  void teach(message::learn m);
  // Closes a group in the store; the experiment does not end before that.
  void close_group(const message::close_group& m);
  using lesson_id = int64_t;
  enum class lesson_of : uint8_t { policy, store };
  lesson_id begin_lesson(lesson_of who) {
    lessons_.emplace(++last_lesson_, who);
    return last_lesson_;
  }
  void end_lesson(lesson_id id) {
    lessons_.erase(id);
    check_end();
  }

  experiment_actor::pointer self_ = nullptr;
  experiment_setup setup_;
  std::optional<ledger> books_;
  std::map<slot_id, slot> slots_;
  slot_id last_slot_ = 0;
  std::size_t proposing_ = 0;                                             // slots
  std::map<std::pair<std::string, std::string>, slot_id> offered_slots_;  // by task and variant
  std::map<prompt_id, open_prompt> prompts_;
  std::map<int64_t, prompt_id> tickets_;
  prompt_id last_prompt_ = 0;
  std::vector<int64_t> turns_;    // prompts of each task so far
  std::vector<int64_t> settled_;  // evaluations of each task since the node started
  std::vector<int> refusals_;     // of models asked about each task, in a row
  std::vector<int> repeats_;      // proposals of each task in a row that were known already
  std::deque<wanted_repair> repairs_;
  std::optional<clock::time_point> waiting_since_;  // for the policy, with nothing else to do
  double last_commit_ms_ = 0;
  std::deque<given_variant> given_;
  std::map<std::pair<std::size_t, std::string>, given_variant> hopefuls_;  // by task and variant
  struct delayed_call {
    clock::time_point when;
    slot_id slot;
    std::function<void()> what;
  };
  std::vector<delayed_call> delayed_;
  clock::time_point saved_{};
  std::string store_problem_;  // "" while the store can be written
  std::string waits_for_;      // machines that are away, if all its devices are; else ""
  std::string store_trouble_logged_;
  clock::time_point store_failed_since_{};
  std::optional<clock::time_point> ending_since_;
  bool stopping_ = false, is_resumed_later_ = false, ended_ = false, device_gone_ = false;
  int failed_proposals_ = 0;
  clock::time_point failed_proposals_since_{};
  std::map<lesson_id, lesson_of> lessons_;  // requests about groups and opinions that nobody has answered yet
  lesson_id last_lesson_ = 0;
  std::string problem_;
};

experiment_actor::behavior_type run_experiment(experiment_actor::stateful_pointer<experiment_flow> self,
                                               const std::shared_ptr<experiment_setup>& setup);

}  // namespace cudal1
