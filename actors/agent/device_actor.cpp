#include "actors/agent/device_actor.hpp"

#include <algorithm>

#include "config/base/thread_cores.hpp"
#include "config/base/wall_clock.hpp"
#include "policy/graph/part_family.hpp"
#include "sandbox/device/environment_id.hpp"
#include "sandbox/verify/disturbance.hpp"
#include "sandbox/verify/timing_draws.hpp"

namespace cudal1 {

namespace {

using clock = std::chrono::steady_clock;
constexpr duration commit_timeout{std::chrono::minutes(2)};  // of the node: the store syncs
constexpr std::chrono::milliseconds device_pulse{1000};
constexpr std::chrono::milliseconds ask_for_trouble{1000}, retry_of_used_device{3000}, rest_after_errors{10'000};
constexpr int start_failures_allowed = 5;
constexpr int faults_in_a_row_allowed = 6;
// Times the reference's own time, where that is so long that the configured limits would not do.
constexpr double slowest_call = 10;
constexpr double longest_evaluation = 400;  // draws in float32 and float64, checks, forks

// Errors that trying again does not fix: a refused confinement, a missing library, a missing GPU.
bool lasts(errc code) {
  return code == errc::refused || code == errc::unsupported || code == errc::not_found ||
         code == errc::invalid_argument;
}

enum class consequence { tried_again, away, given_up };

message::device_state_changed trouble(const std::string& device, const error& e, consequence next) {
  message::device_state_changed m;
  m.device = device;
  m.code = e.code;
  m.problem = e.message;
  m.given_up = next == consequence::given_up;
  m.away = next == consequence::away;
  return m;
}

}  // namespace

void device_control::attach(device_session* session) {
  const std::lock_guard lock(mutex_);
  session_ = session;
}

void device_control::detach() {
  attach(nullptr);
}

void device_control::cancel() {
  const std::lock_guard lock(mutex_);
  if (session_ != nullptr) session_->cancel();
}

std::map<std::string, std::vector<int>> device_control::processes() const {
  const std::lock_guard lock(mutex_);
  if (session_ == nullptr || session_->recording() != nullptr) return {};
  return {{"zygote", {session_->zygote_pid()}},
          {"referee", {session_->referee_pid()}},
          {"runner", session_->runner_pids()}};
}

device_state::~device_state() {
  if (setup_.control) setup_.control->detach();
}

void device_state::begin(device_actor::pointer self, device_setup setup) {
  self_ = self;
  setup_ = std::move(setup);
  self_->send(device_actor(self_), message::tick{});
}

// ---- the session --------------------------------------------------------------------------------------------------

// The session assigns cores to its processes, so this thread must be allowed all cores but those of other devices while
// it starts the session; afterwards it returns to the node's cores.
expected<std::unique_ptr<device_session>> device_state::start_on_its_cores() const {
  CUDAL1_CHECK(move_this_thread(setup_.cores.seen_by(setup_.session.device)));
  auto started = device_session::start(setup_.session);
  CUDAL1_CHECK(move_this_thread(setup_.cores.others));
  return started;
}

void device_state::start_session() {
  auto started = start_on_its_cores();
  if (!started) return start_failed(started.error());
  session_ = std::move(*started);
  setup_.control->attach(session_.get());
  start_failures_ = 0;
  disturbed_ = false;
  tell_ready();
}

// Verdicts by another tolerance are of another environment: they are not reused, nor compared.
environment device_state::where() const {
  auto w = session_->report().where;
  if (!is_kernelbench(setup_.verification) || is_replayed(w)) return w;
  constexpr const char* held_to = "; held to KernelBench's tolerance";
  w.details += held_to;
  if (!w.libraries.empty()) w.libraries += held_to;
  w.id = environment_id(w);
  return w;
}

void device_state::tell_ready() {
  message::device_state_changed m;
  m.device = setup_.session.device;
  m.report = session_->report();
  m.report.where = where();
  if (const auto remark = setup_.cores.remarks.find(setup_.session.device); remark != setup_.cores.remarks.end())
    m.report.remarks.push_back(remark->second);
  self_->send(setup_.agent, m);
}

void device_state::start_failed(const error& e) {
  if (e.code == errc::already_exists) {  // someone else uses it, and may end
    if (!std::exchange(disturbed_, true))
      self_->send(setup_.agent, trouble(setup_.session.device, e, consequence::away));
    next_start_ = clock::now() + retry_of_used_device;
    return;
  }
  ++start_failures_;
  given_up_ = lasts(e.code) || start_failures_ >= start_failures_allowed;
  spdlog::error("device {} does not start (attempt {}): {}", setup_.session.device, start_failures_, e.message);
  next_start_ = clock::now() + device_pulse * (1 << start_failures_);
  self_->send(setup_.agent,
              trouble(setup_.session.device, e, given_up_ ? consequence::given_up : consequence::tried_again));
}

void device_state::tick() {
  self_->delayed_send(device_actor(self_), device_pulse, message::tick{});
  if (!session_ && !given_up_ && !now_ && clock::now() >= next_start_) start_session();
  report_first();
  pull();
}

// Not while two results wait for the node's acknowledgement.
void device_state::pull() {
  if (session_ && !now_ && !given_up_ && unreported_.size() < 2 && !is_disturbed())
    self_->send(setup_.agent, message::device_idle{setup_.session.device});
}

bool device_state::is_disturbed() {
  const auto now = clock::now();
  if (held_ || now < trouble_asked_ + ask_for_trouble) return disturbed_;
  trouble_asked_ = now;
  const auto found = session_->current_trouble();
  if (!found) {
    if (std::exchange(disturbed_, false)) tell_ready();
    return false;
  }
  if (!std::exchange(disturbed_, true) || found->needs_restart)
    self_->send(setup_.agent, trouble(setup_.session.device, {errc::infrastructure, found->what}, consequence::away));
  if (found->needs_restart) {
    end_session();
    next_start_ = now + rest_after_errors;
  }
  return true;
}

void device_state::end_session() {
  setup_.control->detach();
  session_.reset();
}

void device_state::probe() {
  if (session_->open_task(*now_->item.what)) return;
  spdlog::warn("device {}: its session is broken and is restarted", setup_.session.device);
  end_session();
}

// ---- one evaluation -----------------------------------------------------------------------------------------------

void device_state::add_stage(const char* stage, clock::time_point from) {
  now_->draft.stage_ms[stage] += std::chrono::duration<double, std::milli>(clock::now() - from).count();
}

void device_state::take(const message::work_item& item) {
  if (now_ || !session_) {
    spdlog::warn("device {}: received work {} without asking for it", setup_.session.device,
                 attempt_name(item.attempt));
    return;
  }
  now_ = std::make_unique<evaluation>();
  now_->item = item;
  guarded([&] { open(); });
}

void device_state::open() {
  const auto& item = now_->item;
  now_->draft.task = item.attempt.task;
  now_->draft.variant = item.attempt.variant;
  now_->draft.attempt = item.attempt.number;
  now_->draft.environment_id = where().id;
  if (item.code) now_->draft.resources = item.code->resources;
  if (auto* const recording = session_->recording()) return answer_from(*recording);
  // Sent first, so that the plan is ready once the task is open.
  consult<check_plan>(setup_.verifier, message::plan_verification{item.what},
                      [this](check_plan& plan) { check(std::move(plan)); });
  const auto from = clock::now();
  if (auto opened = session_->open_task(*item.what); !opened) {
    const errc code = opened.error().code;
    const bool of_task = code == errc::unsupported || code == errc::invalid_program || code == errc::variant_fault ||
                         code == errc::out_of_memory || code == errc::not_found ||
                         code == errc::corrupt;  // the last two: of its weights' files
    return fault(opened.error(), fault_origin::device, of_task);
  }
  add_stage("open", from);
  ask_for_time(session_->reference_ms());
}

void device_state::answer_from(verdict_recording& recording) {
  const auto& a = now_->item.attempt;
  auto drawn = recording.draw(a.task, a.variant);
  if (!drawn) {
    if (drawn.error().code == errc::not_found) return not_recorded(drawn.error());
    return fault(drawn.error(), fault_origin::node);
  }
  const double ms = device_ms_of(drawn->stage_ms);
  constexpr int64_t slack_ms = 60'000;
  if (ms > 0)
    self_->send(setup_.agent, message::long_evaluation{now_->item.lease, static_cast<int64_t>(ms) + slack_ms});
  if (auto waited = recording.wait(ms); !waited) return fault(waited.error(), fault_origin::node);
  drawn->attempt = now_->draft.attempt;
  drawn->environment_id = now_->draft.environment_id;
  finish(std::move(*drawn));
}

void device_state::not_recorded(const error& e) {
  message::work_done m;
  m.lease = now_->item.lease;
  m.attempt = now_->item.attempt;
  m.fault = e.message;
  m.unrecorded = true;
  report_to_node(std::move(m));
}

void device_state::ask_for_time(double reference_ms) {
  now_->reference_ms = reference_ms;
  self_->send(setup_.agent,
              message::long_evaluation{now_->item.lease, static_cast<int64_t>(longest_evaluation * reference_ms)});
}

void device_state::check(check_plan plan) {
  now_->plan = std::move(plan);
  now_->plan.call_limit_ms = std::max(now_->plan.call_limit_ms, slowest_call * now_->reference_ms);
  // Also sent first: the profiler asks the store, which may be busy writing.
  const auto& a = now_->item.attempt;
  const score_clock by = compared_by(*now_->item.what);
  consult<message::timing_step>(
      setup_.profiler, message::begin_timing{now_->item.lease, a.task, a.experiment, by, now_->item.second_look},
      [this](const message::timing_step& step) {
        now_->first_step = step;
        time_if_correct();
      });
  const auto from = clock::now();
  auto report = session_->check(*now_->item.program, *now_->item.code, now_->plan);
  add_stage("check", from);
  if (!report) return fault(report.error(), fault_origin::variant, report.error().code == errc::unsupported);
  judge(std::move(*report));
}

void device_state::judge(check_report report) {
  now_->draft.checks = report.draws;
  add_notes(report.notes);
  now_->checked = std::move(report);
  consult<message::judged>(setup_.verifier, message::judge_report{now_->item.what, now_->plan, now_->checked},
                           [this](message::judged& j) {
                             now_->draft.result = j.result;
                             now_->draft.reason = std::move(j.reason);
                             now_->draft.gates = std::move(j.gates);
                             now_->draft.ill_conditioned = std::move(j.ill_conditioned);
                             if (j.result != outcome::correct) return finish(now_->draft);
                             if (!note_null_models()) return;
                             now_->is_correct = true;
                             time_if_correct();
                           });
}

// Once a task and session. A task that pays for nothing is not timed.
bool device_state::note_null_models() {
  auto& known = null_reports_[now_->item.what->id];
  if (!known) {
    const auto from = clock::now();
    auto checked = check_null_models(*session_, *now_->item.what, now_->plan, setup_.verification);
    add_stage("null models", from);
    if (!checked) {
      fault(checked.error(), fault_origin::device, checked.error().code == errc::unsupported);
      return false;
    }
    known = std::move(*checked);
  }
  auto& draft = now_->draft;
  draft.gates.push_back(known->gate());
  if (!known->is_unexplained()) return true;
  draft.result = outcome::unexplained;
  draft.reason = "gate " + draft.gates.back().gate + ": " + draft.gates.back().reason;
  finish(draft);
  return false;
}

void device_state::time_if_correct() {
  if (now_->is_correct && now_->first_step) time(message::timing_step(*now_->first_step));
}

void device_state::time(const message::timing_step& step) {
  if (!step.measure) return estimate(step);
  const auto from = clock::now();
  if (step.renew) {
    if (auto renewed = session_->open_task(*now_->item.what, timing_pool::renew); !renewed)
      return fault(renewed.error(), fault_origin::device);
    now_->asked_pairs = 0;
  }
  timing_plan plan = step.plan;
  plan.call_limit_ms = now_->plan.call_limit_ms;
  plan.memory_limit_bytes = now_->plan.memory_limit_bytes;
  auto report = check_and_time(*session_, {*now_->item.what, *now_->item.program, *now_->item.code}, now_->plan,
                               {plan, step.first_fork}, setup_.verification);
  add_stage("time", from);
  if (!report) return fault(report.error(), fault_origin::variant, report.error().code == errc::unsupported);
  now_->asked_pairs += int64_t{plan.forks} * plan.pairs;
  add_timing(*report);
  if (report->problem || !report->inconsistency.empty()) {
    auto& draft = now_->draft;
    draft.result = report->problem ? report->problem->kind : outcome::inconsistent;
    draft.reason = "when timed: " + (report->problem ? report->problem->reason : report->inconsistency);
    draft.samples = now_->timed.samples;
    return finish(draft);
  }
  consult<message::timing_step>(setup_.profiler, message::add_timing{now_->item.lease, std::move(*report)},
                                [this](const message::timing_step& next) { time(next); });
}

void device_state::add_timing(const timing_report& r) {
  auto& all = now_->timed;
  all.samples.insert(all.samples.end(), r.samples.begin(), r.samples.end());
  all.outputs_fingerprinted += r.outputs_fingerprinted;
  all.outputs_compared += r.outputs_compared;
  all.dropped_samples += r.dropped_samples;
  all.notes.insert(all.notes.end(), r.notes.begin(), r.notes.end());
  add_notes(r.notes);
  all.total_ms += r.total_ms;
  all.flush_ms += r.flush_ms;
  all.load_ms += r.load_ms;
  all.read_gb_per_s = std::max(all.read_gb_per_s, r.read_gb_per_s);
  all.waited_ms += r.waited_ms;
  add(all.sharing, r.sharing);
}

void device_state::add_notes(const std::vector<std::string>& notes) {
  auto& all = now_->draft.notes;
  for (const auto& note : notes)
    if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(note);
}

void device_state::estimate(const message::timing_step& step) {
  auto& draft = now_->draft;
  draft.samples = now_->timed.samples;
  if (const auto disturbed = describe(now_->timed.sharing); !disturbed.empty()) add_notes({disturbed});
  if (!step.estimated) {
    draft.result = outcome::unmeasurable;
    draft.reason = "correct, but no pair of calls could be timed";
    return finish(draft);
  }
  static_cast<measured_score&>(draft) = step.estimate;
  draft.confirmed = step.confirmed;
  message::audit evidence{now_->item.what,
                          draft,
                          now_->checked,
                          now_->timed,
                          step.estimate,
                          now_->asked_pairs,
                          session_->report().where.model,
                          now_->item.program};
  consult<verdict>(setup_.auditor, std::move(evidence), [this](verdict& v) { check_if_suspicious(std::move(v)); });
}

// Algebra may save arithmetic, and an honest source may look like a hack: a suspicion is no proof of anything.
void device_state::check_if_suspicious(verdict v) {
  if (v.result != outcome::correct || v.suspicion.empty()) return finish(std::move(v));
  const auto from = clock::now();
  const auto j = check_on_fresh_draws(*session_, {*now_->item.what, *now_->item.program, *now_->item.code}, now_->plan,
                                      setup_.verification);
  if (!j) return fault(j.error(), fault_origin::variant, j.error().code == errc::unsupported);
  v.stage_ms[deep_check_gate] += std::chrono::duration<double, std::milli>(clock::now() - from).count();
  const bool passed = j->result == outcome::correct;
  v.gates.push_back({deep_check_gate, passed, v.suspicion + "; on fresh draws: " + j->reason});
  if (!passed) {
    v.result = j->result;
    v.reason = "on fresh draws: " + j->reason;
    v.score = 0;
    v.confirmed = false;
  }
  finish(std::move(v));
}

void device_state::finish(verdict v) {
  faults_in_a_row_ = 0;
  message::work_done m;
  m.lease = now_->item.lease;
  m.attempt = now_->item.attempt;
  m.has_verdict = true;
  m.result = std::move(v);
  m.result.time_unix_ms = unix_ms();
  m.where = where();
  report_to_node(std::move(m));
}

void device_state::fault(const error& e, fault_origin origin, bool task_refused) {
  spdlog::warn("device {}: {} is lost: {}", setup_.session.device, attempt_name(now_->item.attempt), e.message);
  message::work_done m;
  m.lease = now_->item.lease;
  m.attempt = now_->item.attempt;
  m.fault = e.message;
  m.task_refused = task_refused;
  m.on_device = origin == fault_origin::variant;
  if (!task_refused && origin != fault_origin::node) {
    probe();
    if (++faults_in_a_row_ >= faults_in_a_row_allowed) {
      given_up_ = true;
      self_->send(setup_.agent, trouble(setup_.session.device, e, consequence::given_up));
    }
  }
  report_to_node(std::move(m));
}

void device_state::report_to_node(message::work_done m) {
  if (held_) forget_tasks();
  self_->send(setup_.profiler, message::forget_timing{m.lease});
  now_.reset();
  unreported_.push_back(std::move(m));
  report_first();
  pull();
}

void device_state::report_first() {
  if (report_in_flight_ || unreported_.empty()) return;
  report_in_flight_ = true;
  ask<message::done>(
      self_, setup_.agent, commit_timeout, unreported_.front(),
      [this](const message::done&) {
        report_in_flight_ = false;
        report_failed_ = false;
        unreported_.pop_front();
        report_first();
        pull();
      },
      [this](const error& e) {
        // Once an outage: it is sent again each second.
        spdlog::log(std::exchange(report_failed_, true) ? spdlog::level::debug : spdlog::level::warn,
                    "device {}: {} is not acknowledged yet: {}", setup_.session.device,
                    attempt_name(unreported_.front().attempt), e.message);
        report_in_flight_ = false;
      });
}

void device_state::held(const message::device_held& m) {
  held_ = m.held;
  if (held_ && !now_) forget_tasks();
}

void device_state::forget_tasks() {
  if (!session_) return;
  if (const auto forgotten = session_->forget_tasks(); !forgotten)
    spdlog::warn("device {}: {}", setup_.session.device, forgotten.error().message);
}

device_actor::behavior_type run_device(device_actor::stateful_pointer<device_state> self, device_setup setup) {
  prepare(self);
  auto& s = self->state;
  s.begin(self, std::move(setup));
  return {
      [&s](const message::work_item& m) { log_exceptions(s.name, [&] { s.take(m); }); },
      [&s](const message::device_held& m) { log_exceptions(s.name, [&] { s.held(m); }); },
      [&s](const message::tick&) { log_exceptions(s.name, [&] { s.tick(); }); },
  };
}

}  // namespace cudal1
