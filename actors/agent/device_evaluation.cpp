#include "actors/agent/device_evaluation.hpp"

#include <algorithm>
#include <utility>

#include "sandbox/verify/disturbance.hpp"

namespace cudal1 {

namespace {

// Times the reference's own time, where that is so long that the configured limits would not do.
constexpr double slowest_call = 10;
constexpr double longest_evaluation = 400;  // draws in float32 and float64, checks, forks

// Whether an error of opening a task is the task's own, so that trying again does not fix it.
bool is_of_task(errc code) {
  return code == errc::unsupported || code == errc::invalid_program || code == errc::variant_fault ||
         code == errc::out_of_memory || code == errc::not_found ||
         code == errc::corrupt;  // the last two: of its weights' files
}

}  // namespace

device_evaluation::device_evaluation(message::work_item item, const environment& where)
    : item_(std::move(item)), model_(where.model) {
  draft_.task = item_.attempt.task;
  draft_.variant = item_.attempt.variant;
  draft_.attempt = item_.attempt.number;
  draft_.environment_id = where.id;
  if (item_.code) draft_.resources = item_.code->resources;
}

device_evaluation::effects device_evaluation::run(activity what, effect last) {
  now_ = what;
  return {std::move(last)};
}

void device_evaluation::add_stage(const char* stage, double ms) {
  draft_.stage_ms[stage] += ms;
}

// ---- the check ----------------------------------------------------------------------------------------------------

// The plan is asked for first, so that it is there once the task is open.
device_evaluation::effects device_evaluation::begin() {
  now_ = activity::opening;
  return {ask_for_plan{}, open_task{}};
}

device_evaluation::effects device_evaluation::planned(check_plan plan) {
  plan_ = std::move(plan);
  is_planned_ = true;
  return check_if_ready();
}

device_evaluation::effects device_evaluation::opened(double reference_ms, double ms) {
  add_stage("open", ms);
  reference_ms_ = reference_ms;
  is_open_ = true;
  effects all{extend_lease{static_cast<int64_t>(longest_evaluation * reference_ms)}};
  for (auto& each : check_if_ready())
    all.push_back(std::move(each));
  return all;
}

// The profiler is asked first too: it asks the store, which may be busy writing.
device_evaluation::effects device_evaluation::check_if_ready() {
  if (!is_planned_ || !is_open_) return {};
  plan_.call_limit_ms = std::max(plan_.call_limit_ms, slowest_call * reference_ms_);
  now_ = activity::checking;
  return {ask_what_to_time{}, check{}};
}

device_evaluation::effects device_evaluation::checked(check_report report, double ms) {
  add_stage("check", ms);
  draft_.checks = report.draws;
  add_notes(report.notes);
  report_ = std::move(report);
  return {ask_for_judgement{}};
}

device_evaluation::effects device_evaluation::judged(message::judged j) {
  draft_.result = j.result;
  draft_.reason = std::move(j.reason);
  draft_.gates = std::move(j.gates);
  draft_.ill_conditioned = std::move(j.ill_conditioned);
  draft_.near_eager = j.near_eager;
  if (j.result != outcome::correct) return finished(draft_);
  return run(activity::null_models, check_null_models{});
}

// A task that pays for nothing is not timed.
device_evaluation::effects device_evaluation::null_models_checked(const null_report& found, double ms) {
  if (ms > 0) add_stage("null models", ms);
  draft_.gates.push_back(found.gate());
  if (!found.is_unexplained()) {
    is_correct_ = true;
    return time_if_correct();
  }
  draft_.result = outcome::unexplained;
  draft_.reason = "gate " + draft_.gates.back().gate + ": " + draft_.gates.back().reason;
  return finished(draft_);
}

// ---- the times ----------------------------------------------------------------------------------------------------

device_evaluation::effects device_evaluation::next_to_time(const message::timing_step& step) {
  step_ = step;
  return time_if_correct();
}

// What to time first may be known before the judgement is.
device_evaluation::effects device_evaluation::time_if_correct() {
  if (!is_correct_ || !step_) return {};
  return follow(*std::exchange(step_, std::nullopt));
}

device_evaluation::effects device_evaluation::follow(const message::timing_step& step) {
  if (!step.measure) return estimate(step);
  if (!step.renew) return next_batch(step);
  step_ = step;
  return run(activity::renewing, renew_pool{});
}

device_evaluation::effects device_evaluation::renewed(double ms) {
  add_stage("time", ms);
  asked_pairs_ = 0;
  return next_batch(*std::exchange(step_, std::nullopt));
}

device_evaluation::effects device_evaluation::next_batch(const message::timing_step& step) {
  timing_batch batch{step.plan, step.first_fork};
  batch.plan.call_limit_ms = plan_.call_limit_ms;
  batch.plan.memory_limit_bytes = plan_.memory_limit_bytes;
  asked_pairs_ += int64_t{step.plan.forks} * step.plan.pairs;
  return run(activity::timing, time{batch});
}

device_evaluation::effects device_evaluation::timed(timing_report report, double ms) {
  add_stage("time", ms);
  add_times(report);
  if (!report.problem && report.inconsistency.empty()) return {tell_times{std::move(report)}};
  draft_.result = report.problem ? report.problem->kind : outcome::inconsistent;
  draft_.reason = "when timed: " + (report.problem ? report.problem->reason : report.inconsistency);
  draft_.samples = times_.samples;
  return finished(draft_);
}

void device_evaluation::add_times(const timing_report& r) {
  times_.samples.insert(times_.samples.end(), r.samples.begin(), r.samples.end());
  times_.outputs_fingerprinted += r.outputs_fingerprinted;
  times_.outputs_compared += r.outputs_compared;
  times_.dropped_samples += r.dropped_samples;
  times_.notes.insert(times_.notes.end(), r.notes.begin(), r.notes.end());
  add_notes(r.notes);
  times_.total_ms += r.total_ms;
  times_.flush_ms += r.flush_ms;
  times_.load_ms += r.load_ms;
  times_.read_gb_per_s = std::max(times_.read_gb_per_s, r.read_gb_per_s);
  times_.waited_ms += r.waited_ms;
  add(times_.sharing, r.sharing);
  draft_.reference_parts = std::max(draft_.reference_parts, r.reference_parts);
}

void device_evaluation::add_notes(const std::vector<std::string>& notes) {
  auto& all = draft_.notes;
  for (const auto& note : notes)
    if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(note);
}

// ---- the verdict --------------------------------------------------------------------------------------------------

device_evaluation::effects device_evaluation::estimate(const message::timing_step& step) {
  draft_.samples = times_.samples;
  if (const auto disturbed = describe(times_.sharing); !disturbed.empty()) add_notes({disturbed});
  if (!step.estimated) {
    draft_.result = outcome::unmeasurable;
    draft_.reason = "correct, but no pair of calls could be timed";
    return finished(draft_);
  }
  static_cast<measured_score&>(draft_) = step.estimate;
  draft_.confirmed = step.confirmed;
  return {ask_for_audit{{item_.what, draft_, report_, times_, step.estimate, asked_pairs_, model_, item_.program}}};
}

// Algebra may save arithmetic, and an honest source may look like a hack: a suspicion is no proof of anything.
device_evaluation::effects device_evaluation::audited(verdict v) {
  if (v.result != outcome::correct || v.suspicion.empty()) return finished(std::move(v));
  draft_ = std::move(v);
  return run(activity::checking_again, check_again{});
}

device_evaluation::effects device_evaluation::checked_again(const judgement& j, double ms) {
  add_stage(deep_check_gate, ms);
  const bool passed = j.result == outcome::correct;
  draft_.gates.push_back({deep_check_gate, passed, draft_.suspicion + "; on fresh draws: " + j.reason});
  if (!passed) {
    draft_.result = j.result;
    draft_.reason = "on fresh draws: " + j.reason;
    draft_.score = 0;
    draft_.confirmed = false;
  }
  return finished(draft_);
}

device_evaluation::effects device_evaluation::finished(verdict v) {
  return {finish{std::move(v)}};
}

device_evaluation::effects device_evaluation::failed(const error& e) {
  switch (now_) {
    case activity::opening:
      return {lose{e, fault_origin::device, is_of_task(e.code)}};
    case activity::null_models:
      return {lose{e, fault_origin::device, e.code == errc::unsupported}};
    case activity::renewing:
      return {lose{e, fault_origin::device}};
    default:
      return {lose{e, fault_origin::variant, e.code == errc::unsupported}};
  }
}

device_evaluation::effects device_evaluation::unanswered(const error& e) {
  return {lose{e, fault_origin::node}};
}

}  // namespace cudal1
