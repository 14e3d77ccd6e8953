// One evaluation as its experiment sees it, from a variant to the stored verdict. Plain logic, no actor, no CAF: an
// event comes in, the effects that follow from it go out. Who carries an effect out (experiment_evaluation.cpp) reports
// what came of it as the next event. actors/README.md has the events in their order. Not thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/messages/messages.hpp"

namespace cudal1 {

class evaluation {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using stored_verdict = std::shared_ptr<message::commit_verdict>;

  // What is evaluated, for which experiment.
  struct subject {
    std::string experiment;
    shared_task task;
    variant_record variant;
    shared_program program;  // empty if it is not legal; then `problem` says why
    std::string problem;
    bool is_given = false;            // not proposed by a policy
    bool second_look = false;         // it has a verdict, and is measured again
    std::optional<time_point> asked;  // when the policy was asked for it
  };

  // What the experiment says at the moment of an event.
  struct surroundings {
    const environment& where;  // that a verdict which needs no device is of
    time_point now;
    double best = 0;               // confirmed, of the task
    bool is_ending = false;        // no new attempt begins
    bool is_withdrawing = false;   // what is not on a device yet is given up
    std::string no_device = {};    // why no device will measure it; "" while one may
    int64_t tensor_bytes = 0;      // that a device has for the variant's tensors; 0: unknown
    std::string no_attempts = {};  // why the task gets no more; "" while it does
  };

  // ---- effects: those that an event answers -----------------------------------------------------------------------
  struct reserve {};  // an attempt, in the store: reserved, not_reserved
  struct compile {};  // the program: compiled, not_compiled
  struct offer {};    // it to the devices: reported, withdraw, no_device
  struct commit {     // to the store: committed, not_committed
    stored_verdict what;
  };
  struct end_attempt {  // without a verdict, in the store: attempt_ended, attempt_not_ended
    std::string why;
    attempt_loss how = attempt_loss::elsewhere;
  };
  struct wait {  // waited
    std::chrono::milliseconds delay{0};
    std::string why;  // for the log
  };
  // ---- effects that nothing answers
  struct acknowledge {};  // the device's report: it is stored, or not wanted
  struct refuse {         // the device's report: it is to be sent again
    error why;
  };
  struct count_fault {};
  struct refuse_task {  // it gets no more attempts
    std::string why;
  };
  // ---- effects that end the evaluation; each is the last one
  struct settle {  // with a verdict, which is stored
    stored_verdict what;
  };
  struct drop {           // without a verdict: it is returned to the budget
    std::string problem;  // for the log; "" if there is none
  };
  struct repeat {};    // the experiment has evaluated the variant before
  struct unrecorded {  // a device that replays verdicts has none of the variant
    std::string why;
  };
  using effect = std::variant<reserve, compile, offer, commit, end_attempt, wait, acknowledge, refuse, count_fault,
                              refuse_task, settle, drop, repeat, unrecorded>;
  using effects = std::vector<effect>;

  explicit evaluation(subject s) : what_(std::move(s)), since_(what_.asked) {}

  // ---- events -----------------------------------------------------------------------------------------------------
  effects begin(const surroundings& s);
  // `known`: a verdict of another experiment, in an environment whose verdicts may be reused.
  effects reserved(const message::reserved& r, const surroundings& s);
  effects not_reserved(const error& e, const surroundings& s);
  effects compiled(shared_code code, const surroundings& s);
  effects not_compiled(const error& e, const surroundings& s);
  // A device's report of this attempt, which may come twice.
  effects reported(message::work_done m, const surroundings& s);
  effects committed();
  effects not_committed(const error& e);
  effects attempt_ended(const surroundings& s);
  effects attempt_not_ended(const error& e);
  effects waited(const surroundings& s);
  // The experiment ends, and no device has it: the attempt is given up, and repeated if the experiment is resumed.
  effects withdraw();
  // No device will measure it.
  effects no_device(const std::string& why);

  // ---- queries ----------------------------------------------------------------------------------------------------
  const variant_record& variant() const { return what_.variant; }
  const shared_program& program() const { return what_.program; }
  const shared_task& task() const { return what_.task; }
  const shared_code& code() const { return code_; }
  bool is_given() const { return what_.is_given; }
  bool is_second_look() const { return what_.second_look; }
  // An attempt that the store has, and that has not ended.
  bool has_attempt() const { return has_attempt_; }
  const attempt_record& attempt() const { return attempt_; }
  // A device has it, or may pull it, or its report is being stored.
  bool is_offered() const { return now_ == stage::measuring || (now_ == stage::storing && is_from_device_); }

 private:
  enum class stage { reserving, compiling, measuring, storing, ending, ended };
  // What follows once the attempt has ended without a verdict.
  enum class sequel { retry, retry_later, drop, unrecorded };

  effects offer_to_devices(const surroundings& s);
  effects judge_without_device(outcome result, std::string reason, const surroundings& s, std::string log = "");
  effects store(verdict v, const environment& where, time_point now);
  effects end(std::string why, attempt_loss how, sequel next);
  effects lose(std::string why, attempt_loss how);
  effects over(effect last);
  bool is_reusable(const verdict& known, const surroundings& s) const;
  void end_stage(const char* name, time_point now);

  subject what_;
  stage now_ = stage::reserving;
  bool is_waiting_ = false;  // for a delay, before what its stage does is tried again
  bool has_attempt_ = false, is_from_device_ = false;
  attempt_record attempt_;
  shared_code code_;
  std::map<std::string, double> stage_ms_;  // before the device
  std::optional<time_point> since_;         // start of the current stage
  stored_verdict verdict_;                  // while it is being stored
  end_attempt ending_;
  sequel next_ = sequel::drop;
  int losses_ = 0;  // in a row
};

}  // namespace cudal1
