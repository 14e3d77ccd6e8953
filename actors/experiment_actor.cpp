#include "actors/experiment_actor.hpp"

#include <algorithm>

#include "actors/work_queue.hpp"
#include "config/base/wall_clock.hpp"

namespace cudal1 {

namespace {

constexpr duration store_timeout{std::chrono::minutes(1)};
constexpr duration policy_timeout{std::chrono::minutes(2)};
constexpr std::chrono::milliseconds pulse{250};
constexpr std::chrono::seconds save_interval{5};
constexpr int failed_proposals_allowed = 5;
constexpr std::chrono::seconds policy_restart_limit{30};
// For an experiment that should end while the store cannot be written.
constexpr std::chrono::seconds store_patience{5};
constexpr std::chrono::milliseconds first_delay_after_loss{500}, longest_delay_after_loss{30'000};

// Errors of a commit that trying again does not fix: the attempt does not exist or is lost.
bool is_permanent_refusal(errc code) {
  return code == errc::cancelled || code == errc::not_found || code == errc::invalid_argument;
}

}  // namespace

void experiment_flow::begin(experiment_actor::pointer self, experiment_setup setup) {
  self_ = self;
  setup_ = std::move(setup);
  std::vector<std::string> names;
  for (const auto& t : setup_.tasks)
    names.push_back(t->name);
  const auto now = clock::now();
  books_.emplace(setup_.record, std::move(names), now, setup_.in_a_row);
  books_->count_devices(setup_.devices);
  for (const auto& t : setup_.tallies)
    if (const auto task = books_->index_of(t.task)) books_->resume(*task, t);
  given_.assign(setup_.given.begin(), setup_.given.end());
  saved_ = now;
  self_->send(experiment_actor(self_), message::tick{});
}

// ---- turns --------------------------------------------------------------------------------------------------------

void experiment_flow::fill() {
  if (stopping_ || ended_) return;
  take_given();
  while (setup_.policy && slots_.size() < static_cast<std::size_t>(setup_.credit)) {
    const auto task = books_->next_task(clock::now());
    if (!task) return;
    slots_[++last_slot_].task = *task;
    propose(last_slot_);
  }
}

void experiment_flow::take_given() {
  while (!given_.empty() && slots_.size() < static_cast<std::size_t>(setup_.credit)) {
    given_variant next = std::move(given_.front());
    given_.pop_front();
    const auto task = books_->index_of(next.variant.task);
    if (!task) continue;
    books_->take(*task);
    auto& s = slots_[++last_slot_];
    s.task = *task;
    s.variant = std::move(next.variant);
    s.program = std::move(next.program);
    s.problem = std::move(next.problem);
    reserve(last_slot_);
  }
}

experiment_flow::slot* experiment_flow::find(slot_id id) {
  const auto found = slots_.find(id);
  return found == slots_.end() ? nullptr : &found->second;
}

std::optional<experiment_flow::slot_id> experiment_flow::find(const attempt_record& a) const {
  for (const auto& [id, s] : slots_)
    if (s.offered && same_attempt(s.attempt, a)) return id;
  return std::nullopt;
}

void experiment_flow::end_stage(slot& s, const char* stage) {
  const auto now = clock::now();
  s.stage_ms[stage] += std::chrono::duration<double, std::milli>(now - s.since).count();
  s.since = now;
}

void experiment_flow::drop(slot_id id) {
  books_->abandon(slots_.at(id).task);
  slots_.erase(id);
  check_end();
}

// ---- proposal -----------------------------------------------------------------------------------------------------

void experiment_flow::propose(slot_id id) {
  auto& s = slots_.at(id);
  if (s.tries == 0) s.since = clock::now();
  message::propose question{setup_.tasks[s.task], books_->record().id, books_->record().device,
                            books_->next_seed(s.task)};
  ask<message::proposed>(
      self_, setup_.policy->get().generator, policy_timeout, std::move(question),
      [this, id](message::proposed& p) { proposed(id, std::move(p)); },
      [this, id](const error& e) { no_proposal(id, e); });
}

void experiment_flow::proposed(slot_id id, message::proposed p) {
  failed_proposals_ = 0;
  if (stopping_) return drop(id);
  auto& s = slots_.at(id);
  s.variant = std::move(p.variant);
  s.program = std::move(p.program);
  s.problem = std::move(p.problem);
  reserve(id);
}

void experiment_flow::no_proposal(slot_id id, const error& e) {
  if (e.code == errc::infrastructure || e.code == errc::timeout) {
    spdlog::warn("experiment {}: no proposal: {}", books_->record().id, e.message);
    // Not at once: actors that died are being started again.
    if (++failed_proposals_ == 1) failed_proposals_since_ = clock::now();
    if (failed_proposals_ >= failed_proposals_allowed && clock::now() - failed_proposals_since_ > policy_restart_limit)
      end_without_policy("the policy makes no proposals: " + e.message);
    return drop(id);
  }
  const std::size_t task = slots_.at(id).task;
  slots_.erase(id);
  books_->nothing_new(task, e.message);
  if (!books_->exhausted(task).empty())
    spdlog::info("experiment {}: {} is exhausted: {}", books_->record().id, setup_.tasks[task]->name, e.message);
  fill();
  check_end();
}

// ---- attempt ------------------------------------------------------------------------------------------------------

void experiment_flow::reserve(slot_id id) {
  const auto& s = slots_.at(id);
  ask<attempt_record>(
      self_, setup_.store, store_timeout, message::reserve_attempt{s.variant, books_->record().id},
      [this, id](const attempt_record& a) {
        store_answered();
        if (find(id) != nullptr) reserved(id, a);
      },
      [this, id](const error& e) { not_reserved(id, e); });
}

void experiment_flow::not_reserved(slot_id id, const error& e) {
  if (find(id) == nullptr) return;
  auto& s = slots_.at(id);
  if (e.code == errc::variant_fault) {
    s.attempt = {books_->record().id, s.variant.task, s.variant.id, 3, attempt_state::leased, "", unix_ms()};
    return judge_without_device(id, outcome::quarantined, e.message);
  }
  if (e.code == errc::already_exists) {
    if (stopping_ || !setup_.policy) return drop(id);
    if (++s.tries < setup_.proposals) return propose(id);
    return no_proposal(id, {errc::not_found, fmt::format("{} proposals in a row were known already", s.tries)});
  }
  if (e.code == errc::invalid_argument) {
    spdlog::error("experiment {}: {}", books_->record().id, e.message);
    if (!setup_.policy) problem_ = e.message;
    books_->refuse_task(s.task, e.message);
    return drop(id);
  }
  spdlog::warn("experiment {}: no attempt could be reserved, trying again: {}", books_->record().id, e.message);
  store_failed(e);
  if (stopping_ || may_abandon()) return drop(id);
  later([this, id] {
    if (find(id) != nullptr) reserve(id);
  });
}

void experiment_flow::reserved(slot_id id, const attempt_record& a) {
  auto& s = slots_.at(id);
  s.attempt = a;
  if (s.since != clock::time_point{}) end_stage(s, "propose");
  s.since = clock::now();
  if (!s.program) return judge_without_device(id, outcome::invalid, s.problem);
  compile(id);
}

// ---- compilation --------------------------------------------------------------------------------------------------

void experiment_flow::compile(slot_id id) {
  ask<shared_code>(
      self_, setup_.compiler, setup_.compile_timeout, message::compile{slots_.at(id).program},
      [this, id](shared_code& code) {
        auto& s = slots_.at(id);
        s.code = std::move(code);
        end_stage(s, "compile");
        offer(id);
      },
      [this, id](const error& e) { not_compiled(id, e); });
}

void experiment_flow::not_compiled(slot_id id, const error& e) {
  end_stage(slots_.at(id), "compile");
  switch (e.code) {
    case errc::compile_failed:
      return judge_without_device(id, outcome::compile_error, "the compiler refused the source", e.message);
    case errc::unsupported:
    case errc::invalid_program:
      return judge_without_device(id, outcome::compile_error, e.message);
    case errc::refused:
      return judge_without_device(id, outcome::refused, e.message);
    case errc::timeout:
      return judge_without_device(id, outcome::compile_timeout, e.message);
    default:
      return lose(id, "compiler: " + e.message, store::loss::elsewhere);
  }
}

void experiment_flow::offer(slot_id id) {
  if (device_gone_) return lose(id, problem_, store::loss::elsewhere);
  auto& s = slots_.at(id);
  s.offered = true;
  self_->send(setup_.node,
              message::work_item{0, books_->record().device, s.attempt, setup_.tasks[s.task], s.program, s.code});
}

// ---- verdict ------------------------------------------------------------------------------------------------------

void experiment_flow::judge_without_device(slot_id id, outcome result, std::string reason, std::string log) {
  const auto& s = slots_.at(id);
  verdict v;
  v.task = s.variant.task;
  v.variant = s.variant.id;
  v.attempt = s.attempt.number;
  v.result = result;
  v.reason = std::move(reason);
  v.compiler_log = std::move(log);
  v.environment_id = setup_.where.id;
  v.time_unix_ms = unix_ms();
  commit(id, std::move(v), setup_.where, std::nullopt);
}

caf::result<message::done> experiment_flow::work_done(const message::work_done& m) {
  auto promise = self_->make_response_promise<message::done>();
  const auto id = find(m.attempt);
  if (!id) {  // late or repeated
    promise.deliver(message::done{});
    return promise;
  }
  if (m.task_refused) {
    books_->refuse_task(slots_.at(*id).task, m.fault);
    if (!setup_.policy) problem_ = m.fault;
  }
  if (m.has_verdict) {
    verdict v = m.result;
    const auto& s = slots_.at(*id);
    if (s.code && v.compiler_log.empty()) v.compiler_log = s.code->log;
    commit(*id, std::move(v), m.where, promise);
  } else {
    promise.deliver(message::done{});
    lose(*id, m.fault, m.on_device ? store::loss::on_device : store::loss::elsewhere);
  }
  return promise;
}

void experiment_flow::commit(slot_id id, verdict v, const environment& where, std::optional<done_promise> promise) {
  const auto& s = slots_.at(id);
  const double device_ms = device_ms_of(v.stage_ms);
  for (const auto& [stage, ms] : s.stage_ms)
    v.stage_ms[stage] = ms;
  if (s.offered) {
    const double since = std::chrono::duration<double, std::milli>(clock::now() - s.since).count();
    v.stage_ms["wait"] = std::max(0.0, since - device_ms);
  }
  v.stage_ms["commit"] = std::exchange(last_commit_ms_, 0);  // of earlier commits, since this one is not over yet
  message::commit_verdict question{s.attempt, v, where};
  ask<message::done>(
      self_, setup_.store, store_timeout, std::move(question),
      [this, id, v, promise, from = clock::now()](const message::done&) mutable {
        store_answered();
        if (promise) promise->deliver(message::done{});
        last_commit_ms_ += std::chrono::duration<double, std::milli>(clock::now() - from).count();
        if (find(id) != nullptr) settled(id, v);
      },
      [this, id, v, where, promise](error e) mutable {
        if (is_permanent_refusal(e.code)) {
          spdlog::error("experiment {}: a verdict cannot be stored: {}", books_->record().id, e.message);
          if (promise) promise->deliver(message::done{});
          if (find(id) != nullptr) drop(id);
          return;
        }
        spdlog::error("experiment {}: a verdict is not stored yet: {}", books_->record().id, e.message);
        store_failed(e);
        if (may_abandon()) {
          if (promise) promise->deliver(message::done{});
          if (find(id) != nullptr) drop(id);
          return;
        }
        // The device sends its result again and keeps its lease; a verdict of this actor's is committed again.
        if (promise) return promise->deliver(to_caf(std::move(e))), void();
        later([this, id, v, where] {
          if (find(id) != nullptr) commit(id, v, where, std::nullopt);
        });
      });
}

void experiment_flow::settled(slot_id id, const verdict& v) {
  const slot s = std::move(slots_.at(id));
  slots_.erase(id);
  const double best_before = books_->best(s.task);
  books_->settle(s.task, v, clock::now());
  std::vector<std::string> stages;
  for (const auto& [stage, ms] : v.stage_ms)
    stages.push_back(fmt::format("{} {:.0f}", stage, ms));
  spdlog::info("experiment {}: {} {} {}{} ({} ms)", books_->record().id, setup_.tasks[s.task]->name,
               s.variant.id.substr(0, 12), enum_name(v.result),
               v.result == outcome::correct ? fmt::format(" {:.3f}x", v.score) : ": " + v.reason,
               fmt::join(stages, ", "));
  if (books_->best(s.task) > best_before)
    note("best", s,
         fmt::format("{}: {:.3f}x [{:.3f}, {:.3f}]", setup_.tasks[s.task]->name, v.score, v.score_interval.low,
                     v.score_interval.high));
  if (setup_.policy) {
    ++lessons_;
    message::learn lesson{setup_.tasks[s.task], books_->record().device, s.variant, v.result, v.score};
    ask<message::done>(
        self_, setup_.policy->get().learner, policy_timeout, std::move(lesson),
        [this](const message::done&) {
          --lessons_;
          check_end();
        },
        [this](const error& e) {
          spdlog::warn("experiment {}: the learner did not accept an experience: {}", books_->record().id, e.message);
          --lessons_;
          check_end();
        });
  }
  fill();
  check_end();
}

void experiment_flow::lose(slot_id id, const std::string& reason, store::loss where) {
  auto& s = slots_.at(id);
  s.offered = false;  // another report of this attempt comes too late
  ask<message::done>(
      self_, setup_.store, store_timeout, message::lose_attempt{s.attempt, reason, where == store::loss::on_device},
      [this, id, where](const message::done&) {
        store_answered();
        if (find(id) != nullptr) lost(id, where);
      },
      [this, id, reason, where](const error& e) {
        spdlog::error("experiment {}: a lost attempt is not stored yet: {}", books_->record().id, e.message);
        store_failed(e);
        if (find(id) == nullptr) return;
        if (may_abandon()) return drop(id);
        later([this, id, reason, where] {
          if (find(id) != nullptr) lose(id, reason, where);
        });
      });
}

void experiment_flow::lost(slot_id id, store::loss where) {
  auto& s = slots_.at(id);
  books_->count_fault();
  if (stopping_ || !books_->exhausted(s.task).empty()) return drop(id);
  if (where == store::loss::on_device) return reserve(id);
  later(
      [this, id] {
        if (find(id) == nullptr) return;
        if (stopping_) return drop(id);
        reserve(id);
      },
      std::min(first_delay_after_loss * (1 << std::min(s.losses++, 10)), longest_delay_after_loss));
}

void experiment_flow::store_failed(const error& e) {
  if (store_problem_.empty()) store_failed_since_ = clock::now();
  store_problem_ = e.message;
}

bool experiment_flow::may_abandon() const {
  const auto now = clock::now();
  return (stopping_ || books_->out_of_time(now)) && !store_problem_.empty() &&
         now - store_failed_since_ > store_patience;
}

void experiment_flow::note(const char* kind, const slot& s, const std::string& text) {
  self_->send(setup_.store,
              message::note_event{{0, unix_ms(), kind, books_->record().id, s.variant.task, s.variant.id, text}});
}

// ---- queries and the end ------------------------------------------------------------------------------------------

experiment_progress experiment_flow::progress() const {
  auto p = books_->progress(clock::now());
  p.problem = store_problem_;
  return p;
}

expected<message::done> experiment_flow::stop(const message::stop_experiment& m) {
  if (ended_) return message::done{};
  stopping_ = true;
  // An experiment with a hand-written variant is not resumed: its client is gone once the node has ended.
  keep_running_ = m.keep_running && setup_.policy;
  books_->stop();
  given_.clear();
  check_end();
  return message::done{};
}

void experiment_flow::policy_restarted(const message::policy_restarted& m) {
  if (ended_) return;
  failed_proposals_ = 0;
  if (!m.problem.empty()) end_without_policy(m.problem);
  fill();
  check_end();
}

void experiment_flow::end_without_policy(const std::string& problem) {
  if (stopping_) return;
  problem_ = problem;
  stopping_ = keep_running_ = true;
  books_->stop();
}

void experiment_flow::device_given_up(const message::device_given_up& m) {
  if (ended_) return;
  problem_ = m.problem;
  stopping_ = keep_running_ = device_gone_ = true;
  books_->stop();
  given_.clear();
  std::vector<slot_id> waiting;
  for (const auto& [id, s] : slots_)
    if (s.offered) waiting.push_back(id);
  for (const slot_id id : waiting)
    lose(id, m.problem, store::loss::elsewhere);
  check_end();
}

void experiment_flow::tick() {
  if (ended_) return;
  self_->delayed_send(experiment_actor(self_), pulse, message::tick{});
  const auto now = clock::now();
  std::deque<delayed> due;
  for (auto& each : std::exchange(later_, {}))
    (each.when <= now || stopping_ ? due : later_).push_back(std::move(each));
  for (auto& each : due)
    each.what();
  if (clock::now() - saved_ >= save_interval) save();
  fill();
  check_end();
}

void experiment_flow::save() {
  saved_ = clock::now();
  auto record = books_->record();
  record.active_s = books_->active_s(saved_);
  ask<message::done>(
      self_, setup_.store, store_timeout, message::save_experiment{record},
      [this](const message::done&) { store_answered(); },
      [this](const error& e) {
        spdlog::error("the experiment's record was not stored: {}", e.message);
        store_failed(e);
      });
}

// Lets the policy learn from the groups that did not become full; the experiment ends after that.
void experiment_flow::learn_rest() {
  learned_rest_ = true;
  ++lessons_;
  ask<message::done>(
      self_, setup_.policy->get().learner, policy_timeout, message::learn_rest{},
      [this](const message::done&) {
        --lessons_;
        check_end();
      },
      [this](const error& e) {
        spdlog::warn("experiment {}: the learner did not learn from the last groups: {}", books_->record().id,
                     e.message);
        --lessons_;
        check_end();
      });
}

void experiment_flow::check_end() {
  const auto now = clock::now();
  if (ended_ || lessons_ > 0 || !slots_.empty() || !given_.empty() || !books_->complete(now)) return;
  if (setup_.policy && !learned_rest_) return learn_rest();
  ended_ = true;
  auto& record = books_->record();
  record.active_s = books_->active_s(now);
  if (keep_running_ && problem_.empty()) problem_ = "the node ended; the next node resumes the experiment";
  if (!keep_running_) {
    record.state = stopping_ ? experiment_state::cancelled : experiment_state::finished;
    record.finished_unix_ms = unix_ms();
  }
  const message::experiment_ended last{books_->progress(now), problem_};
  const auto leave = [this, last](const std::string& not_stored) {
    auto m = last;
    if (!not_stored.empty()) {
      spdlog::error("the experiment's end was not stored: {}", not_stored);
      if (m.problem.empty()) m.problem = "its end could not be stored, so the next node resumes it: " + not_stored;
    }
    self_->send(setup_.node, m);
    self_->quit();
  };
  ask<message::done>(
      self_, setup_.store, store_timeout, message::save_experiment{record},
      [leave](const message::done&) { leave(""); }, [leave](const error& e) { leave(e.message); });
}

experiment_actor::behavior_type run_experiment(experiment_actor::stateful_pointer<experiment_flow> self,
                                               const std::shared_ptr<experiment_setup>& setup) {
  prepare(self);
  auto& s = self->state;
  s.begin(self, std::move(*setup));
  return {
      [&s](const message::work_done& m) { return s.work_done(m); },
      [&s](const message::progress_query&) -> caf::result<experiment_progress> { return s.progress(); },
      [&s](const message::stop_experiment& m) { return reply_or_error(s.name, [&] { return s.stop(m); }); },
      [&s](const message::policy_restarted& m) { log_exceptions(s.name, [&] { s.policy_restarted(m); }); },
      [&s](const message::device_given_up& m) { log_exceptions(s.name, [&] { s.device_given_up(m); }); },
      [&s](const message::tick&) { log_exceptions(s.name, [&] { s.tick(); }); },
  };
}

}  // namespace cudal1
