#include "actors/agent/device_actor.hpp"

#include <algorithm>

#include "config/base/thread_cores.hpp"
#include "config/base/wall_clock.hpp"
#include "policy/graph/part_family.hpp"
#include "sandbox/device/accuracy.hpp"
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

// Verdicts by another tolerance are of another environment: they are not reused, nor compared. What another limit of
// memory let fail is shown with it.
environment device_state::where() const {
  auto w = session_->report().where;
  if (is_replayed(w)) return w;
  if (const int64_t bytes = setup_.session.memory_bytes; bytes > 0) {
    w.details += fmt::format("; of its memory at most {} MiB", bytes >> 20);
    w.id = environment_id(w);
  }
  return held_to(std::move(w), accuracy_of(setup_.verification));
}

void device_state::tell_ready() {
  message::device_state_changed m;
  m.device = setup_.session.device;
  m.report = session_->report();
  m.report.where = where();
  m.report.tensor_bytes = setup_.tensor_bytes;
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
  if (session_->open_task(*now_->item().what)) return;
  spdlog::warn("device {}: its session is broken and is restarted", setup_.session.device);
  end_session();
}

// ---- one evaluation -----------------------------------------------------------------------------------------------

void device_state::take(const message::work_item& item) {
  if (now_ || !session_) {
    spdlog::warn("device {}: received work {} without asking for it", setup_.session.device,
                 attempt_name(item.attempt));
    return;
  }
  now_.emplace(item, where());
  turn_ = setup_.turns->wait_for(setup_.session.device);  // where a model is computed there: half a second or so
  guarded([&] {
    if (auto* const recording = session_->recording())
      answer_from(*recording);
    else
      tell(&device_evaluation::begin);
  });
}

// An effect that blocks, or ends the evaluation, is the last one.
void device_state::carry_out(device_evaluation::effects all) {
  for (auto& each : all)
    std::visit([this](auto& e) { carry_out(e); }, each);
}

resident_variant device_state::resident() const {
  const auto& item = now_->item();
  return {*item.what, *item.program, *item.code};
}

template <class T, class Event>
void device_state::tell_result(expected<T> got, Event event, const stopwatch& took) {
  if (!got) return tell(&device_evaluation::failed, got.error());
  tell(event, std::move(*got), took.ms());
}

void device_state::carry_out(const device_evaluation::open_task&) {
  const stopwatch took;
  const auto opened = session_->open_task(*now_->item().what);
  tell_result(opened.map([this] { return session_->reference_ms(); }), &device_evaluation::opened, took);
}

void device_state::carry_out(const device_evaluation::check&) {
  const stopwatch took;
  const auto& item = now_->item();
  tell_result(session_->check(*item.program, *item.code, now_->plan()), &device_evaluation::checked, took);
}

// Once a task and session.
void device_state::carry_out(const device_evaluation::check_null_models&) {
  auto& known = null_reports_[now_->item().what->id];
  if (known) return tell(&device_evaluation::null_models_checked, *known, 0.0);
  const stopwatch took;
  auto found = cudal1::check_null_models(*session_, *now_->item().what, now_->plan(), setup_.verification);
  if (found) known = *found;
  tell_result(std::move(found), &device_evaluation::null_models_checked, took);
}

void device_state::carry_out(const device_evaluation::renew_pool&) {
  const stopwatch took;
  const auto renewed = session_->open_task(*now_->item().what, timing_pool::renew);
  if (!renewed) return tell(&device_evaluation::failed, renewed.error());
  tell(&device_evaluation::renewed, took.ms());
}

void device_state::carry_out(const device_evaluation::time& e) {
  const stopwatch took;
  tell_result(check_and_time(*session_, resident(), now_->plan(), e.batch, setup_.verification),
              &device_evaluation::timed, took);
}

void device_state::carry_out(const device_evaluation::check_again&) {
  const stopwatch took;
  tell_result(check_on_fresh_draws(*session_, resident(), now_->plan(), setup_.verification),
              &device_evaluation::checked_again, took);
}

void device_state::carry_out(const device_evaluation::ask_for_plan&) {
  consult<check_plan>(setup_.verifier, message::plan_verification{now_->item().what}, &device_evaluation::planned);
}

void device_state::carry_out(const device_evaluation::ask_for_judgement&) {
  consult<message::judged>(setup_.verifier, message::judge_report{now_->item().what, now_->plan(), now_->report()},
                           &device_evaluation::judged);
}

void device_state::carry_out(const device_evaluation::ask_what_to_time&) {
  const auto& item = now_->item();
  consult<message::timing_step>(
      setup_.profiler,
      message::begin_timing{item.lease, item.attempt.task, item.attempt.experiment, compared_by(*item.what),
                            item.second_look, now_->draft().near_eager},
      &device_evaluation::next_to_time);
}

void device_state::carry_out(device_evaluation::tell_times& e) {
  consult<message::timing_step>(setup_.profiler, message::add_timing{now_->item().lease, std::move(e.report)},
                                &device_evaluation::next_to_time);
}

void device_state::carry_out(device_evaluation::ask_for_audit& e) {
  consult<verdict>(setup_.auditor, std::move(e.evidence), &device_evaluation::audited);
}

void device_state::carry_out(const device_evaluation::extend_lease& e) {
  self_->send(setup_.agent, message::long_evaluation{now_->item().lease, e.limit_ms});
}

void device_state::answer_from(verdict_recording& recording) {
  const auto& a = now_->item().attempt;
  auto drawn = recording.draw(a.task, a.variant);
  if (!drawn) {
    if (drawn.error().code == errc::not_found) return not_recorded(drawn.error());
    return carry_out(device_evaluation::lose{drawn.error()});
  }
  const double ms = device_ms_of(drawn->stage_ms);
  constexpr int64_t slack_ms = 60'000;
  if (ms > 0) carry_out(device_evaluation::extend_lease{static_cast<int64_t>(ms) + slack_ms});
  if (const auto waited = recording.wait(ms); !waited) return carry_out(device_evaluation::lose{waited.error()});
  drawn->attempt = now_->draft().attempt;
  drawn->environment_id = now_->draft().environment_id;
  device_evaluation::finish all{std::move(*drawn)};
  carry_out(all);
}

void device_state::not_recorded(const error& e) {
  message::work_done m;
  m.lease = now_->item().lease;
  m.attempt = now_->item().attempt;
  m.fault = e.message;
  m.unrecorded = true;
  report_to_node(std::move(m));
}

void device_state::carry_out(device_evaluation::finish& e) {
  faults_in_a_row_ = 0;
  message::work_done m;
  m.lease = now_->item().lease;
  m.attempt = now_->item().attempt;
  m.has_verdict = true;
  m.result = std::move(e.result);
  m.result.time_unix_ms = unix_ms();
  m.where = where();
  report_to_node(std::move(m));
}

void device_state::carry_out(const device_evaluation::lose& e) {
  spdlog::warn("device {}: {} is lost: {}", setup_.session.device, attempt_name(now_->item().attempt), e.why.message);
  message::work_done m;
  m.lease = now_->item().lease;
  m.attempt = now_->item().attempt;
  m.fault = e.why.message;
  m.task_refused = e.task_refused;
  m.on_device = e.origin == fault_origin::variant;
  if (!e.task_refused && e.origin != fault_origin::node) {
    probe();
    if (++faults_in_a_row_ >= faults_in_a_row_allowed) {
      given_up_ = true;
      self_->send(setup_.agent, trouble(setup_.session.device, e.why, consequence::given_up));
    }
  }
  report_to_node(std::move(m));
}

void device_state::report_to_node(message::work_done m) {
  if (held_) forget_tasks();
  self_->send(setup_.profiler, message::forget_timing{m.lease});
  now_.reset();
  turn_.end();
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
