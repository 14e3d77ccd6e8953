// One evaluation as its device sees it, from the first check to the audited verdict. Plain logic, no actor, no CAF: an
// event comes in, the effects that follow from it go out. Who carries an effect out (device_actor.cpp) reports what
// came of it as the next event. actors/README.md has the events in their order. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/messages/messages.hpp"
#include "sandbox/verify/null_models.hpp"
#include "sandbox/verify/timing_draws.hpp"

namespace cudal1 {

class device_evaluation {
 public:
  // Where an infrastructure fault came from: another part of the node (the store cannot be written), the device without
  // the variant, or the device while the variant was resident on it, so that it may be the cause.
  enum class fault_origin { node, device, variant };

  // ---- effects on the session, which block: each is the last one, and answered by its event or by `failed` ----------
  struct open_task {};          // makes it the current one: opened
  struct check {};              // by plan(): checked
  struct check_null_models {};  // once a task: null_models_checked
  struct renew_pool {};         // renewed
  struct time {                 // timed
    timing_batch batch;
  };
  struct check_again {};  // on fresh draws: checked_again
  // ---- questions to those who use no device; answered by their event, or by `unanswered` ----------------------------
  struct ask_for_plan {};       // to the verifier: planned
  struct ask_for_judgement {};  // to the verifier, of report(): judged
  struct ask_what_to_time {};   // to the profiler, at first: next_to_time
  struct tell_times {           // to the profiler: next_to_time
    timing_report report;
  };
  struct ask_for_audit {  // to the auditor: audited
    message::audit evidence;
  };
  // ---- the rest -----------------------------------------------------------------------------------------------------
  struct extend_lease {
    int64_t limit_ms = 0;  // from its beginning
  };
  // The last one of an evaluation is one of these.
  struct finish {
    verdict result;
  };
  struct lose {  // an infrastructure fault
    error why;
    fault_origin origin = fault_origin::node;
    bool task_refused = false;  // the device cannot run the task at all
  };
  using effect =
      std::variant<open_task, check, check_null_models, renew_pool, time, check_again, ask_for_plan, ask_for_judgement,
                   ask_what_to_time, tell_times, ask_for_audit, extend_lease, finish, lose>;
  using effects = std::vector<effect>;

  // `where`: the device, as the verdict names it.
  device_evaluation(message::work_item item, const environment& where);

  // ---- events; `ms`: how long the session took ----------------------------------------------------------------------
  effects begin();
  effects planned(check_plan plan);
  // `reference_ms`: of a call of the task's own program.
  effects opened(double reference_ms, double ms);
  effects checked(check_report report, double ms);
  effects judged(message::judged j);
  effects null_models_checked(const null_report& found, double ms);
  effects next_to_time(const message::timing_step& step);
  effects renewed(double ms);
  effects timed(timing_report report, double ms);
  effects audited(verdict v);
  effects checked_again(const judgement& j, double ms);
  // The session's last effect ended with an infrastructure error.
  effects failed(const error& e);
  // The last question has no answer.
  effects unanswered(const error& e);

  // ---- queries ------------------------------------------------------------------------------------------------------
  const message::work_item& item() const { return item_; }
  const check_plan& plan() const { return plan_; }
  const check_report& report() const { return report_; }
  // The verdict as far as it is known: with what names it.
  const verdict& draft() const { return draft_; }

 private:
  enum class activity { opening, checking, null_models, renewing, timing, checking_again };

  effects check_if_ready();
  effects time_if_correct();
  effects follow(const message::timing_step& step);
  effects next_batch(const message::timing_step& step);
  effects estimate(const message::timing_step& step);
  effects finished(verdict v);
  effects run(activity what, effect last);
  void add_stage(const char* stage, double ms);
  void add_times(const timing_report& r);
  void add_notes(const std::vector<std::string>& notes);  // to the verdict, without duplicates

  message::work_item item_;
  std::string model_;  // of the device
  verdict draft_;
  activity now_ = activity::opening;
  check_plan plan_;
  check_report report_;
  double reference_ms_ = 0;
  bool is_planned_ = false, is_open_ = false, is_correct_ = false;
  std::optional<message::timing_step> step_;  // that is next
  timing_report times_;                       // all reports together
  int64_t asked_pairs_ = 0;                   // since the pool was renewed
};

}  // namespace cudal1
