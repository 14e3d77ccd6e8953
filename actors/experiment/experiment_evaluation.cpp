// The steps of one evaluation, from the proposal to the acknowledged verdict.
#include <algorithm>

#include "actors/experiment/experiment_actor.hpp"
#include "config/base/wall_clock.hpp"
#include "policy/graph/part_family.hpp"

namespace cudal1 {

namespace {

constexpr std::chrono::milliseconds first_delay_after_loss{500}, longest_delay_after_loss{30'000};
constexpr std::chrono::milliseconds delay_without_store{500};

// Errors of a commit that trying again does not fix: the attempt does not exist or is lost.
bool is_permanent_refusal(errc code) {
  return code == errc::cancelled || code == errc::not_found || code == errc::invalid_argument;
}

}  // namespace

std::optional<experiment_flow::slot_id> experiment_flow::find(const attempt_record& a) const {
  const auto found = offered_slots_.find({a.task, a.variant});
  if (found == offered_slots_.end()) return std::nullopt;
  const slot& s = slots_.at(found->second);
  return s.offered && same_attempt(s.attempt, a) ? std::optional(found->second) : std::nullopt;
}

experiment_flow::slot experiment_flow::take(slot_id id) {
  slot taken = std::move(slots_.extract(id).mapped());
  const auto offered = offered_slots_.find({taken.attempt.task, taken.attempt.variant});
  if (offered != offered_slots_.end() && offered->second == id) offered_slots_.erase(offered);
  return taken;
}

void experiment_flow::end_stage(slot& s, const char* stage) {
  const auto now = clock::now();
  s.stage_ms[stage] += std::chrono::duration<double, std::milli>(now - s.since).count();
  s.since = now;
}

void experiment_flow::drop(slot_id id) {
  const slot dropped = take(id);
  if (dropped.second_look)
    books_->abandon(ledger::second_look{dropped.task, dropped.variant.id});
  else
    books_->abandon(dropped.task);
  check_prompt(dropped.prompt);
  check_end();
}

// ---- attempt ------------------------------------------------------------------------------------------------------

void experiment_flow::reserve(slot_id id) {
  const auto& s = slots_.at(id);
  if (is_ending() || (!s.second_look && !books_->exhausted(s.task).empty())) return drop(id);
  ask_store<message::reserved>(
      message::reserve_attempt{s.variant, books_->record().id, s.prompt == 0 ? "" : setup_.reuse_class, s.second_look},
      [this, id](message::reserved& r) {
        if (exists(id)) reserved(id, std::move(r));
      },
      [this, id](const error& e) {
        if (exists(id)) not_reserved(id, e);
      });
}

void experiment_flow::not_reserved(slot_id id, const error& e) {
  auto& s = slots_.at(id);
  if (e.code == errc::variant_fault && s.second_look) return drop(id);  // its verdict stays
  if (e.code == errc::variant_fault) {
    s.attempt = {books_->record().id, s.variant.task, s.variant.id, 3, attempt_state::leased, "", unix_ms()};
    return judge_without_device(id, outcome::quarantined, e.message);
  }
  if (e.code == errc::already_exists) {
    if (is_ending() || s.prompt == 0) return drop(id);
    return repeated(id);
  }
  if (e.code == errc::invalid_argument) {
    spdlog::error("experiment {}: {}", books_->record().id, e.message);
    if (!setup_.policy) problem_ = e.message;
    books_->refuse_task(s.task, e.message);
    return drop(id);
  }
  // Once an outage: a full disk may last.
  const bool logged = std::exchange(not_reserved_, e.message) == e.message;
  spdlog::log(logged ? spdlog::level::debug : spdlog::level::warn,
              "experiment {}: no attempt could be reserved, trying again: {}", books_->record().id, e.message);
  later(
      id, [this, id] { reserve(id); }, delay_without_store);
}

void experiment_flow::reserved(slot_id id, message::reserved r) {
  not_reserved_.clear();
  auto& s = slots_.at(id);
  s.attempt = r.attempt;
  if (s.prompt != 0) repeats_[s.task] = 0;
  if (s.since != clock::time_point{}) end_stage(s, "propose");
  s.since = clock::now();
  if (is_withdrawing()) return withdraw(id);
  if (is_reusable(s, r)) return reuse(id, std::move(r.known.front()));
  if (!s.program) return judge_without_device(id, outcome::invalid, s.problem);
  compile(id);
}

bool experiment_flow::is_reusable(const slot& s, const message::reserved& r) const {
  if (r.known.empty()) return false;
  const verdict& known = r.known.front();
  if (is_outdated_score(*setup_.tasks[s.task], known)) return false;
  return known.result != outcome::correct || known.score <= books_->best(s.task);
}

void experiment_flow::reuse(slot_id id, verdict known) {
  known.attempt = slots_.at(id).attempt.number;
  known.confirmed = false;  // as a best of this experiment
  known.stage_ms.clear();
  commit(id, std::move(known), setup_.where, std::nullopt);
}

// ---- compilation --------------------------------------------------------------------------------------------------

void experiment_flow::compile(slot_id id) {
  ask_for<shared_code>(
      id, setup_.compiler, setup_.compile_timeout, message::compile{setup_.compile_target, slots_.at(id).program, 0},
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
  if (is_withdrawing()) return withdraw(id);
  if (device_gone_) return lose(id, problem_, store::loss::elsewhere);
  auto& s = slots_.at(id);
  s.offered = true;
  offered_slots_[{s.attempt.task, s.attempt.variant}] = id;
  self_->send(setup_.node, message::work_item{0, books_->record().device, s.attempt, setup_.tasks[s.task], s.program,
                                              s.code, s.second_look});
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

caf::result<message::done> experiment_flow::work_done(message::work_done&& m) {
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
    verdict v = std::move(m.result);
    const auto& s = slots_.at(*id);
    if (s.code && v.compiler_log.empty()) v.compiler_log = s.code->log;
    commit(*id, std::move(v), m.where, promise);
  } else if (m.unrecorded) {
    promise.deliver(message::done{});
    not_recorded(*id, m.fault);
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
  const auto question =
      std::make_shared<const message::commit_verdict>(message::commit_verdict{s.attempt, std::move(v), where});
  ask_store<message::done>(
      *question,
      [this, id, question, promise, from = clock::now()](const message::done&) mutable {
        if (promise) promise->deliver(message::done{});
        last_commit_ms_ += std::chrono::duration<double, std::milli>(clock::now() - from).count();
        if (exists(id)) settled(id, question->result);
      },
      [this, id, question, promise](error e) mutable {
        not_committed(id, question->result, question->where, promise, std::move(e));
      });
}

void experiment_flow::not_committed(slot_id id, const verdict& v, const environment& where,
                                    std::optional<done_promise>& promise, error e) {
  const bool is_refused = is_permanent_refusal(e.code);
  spdlog::error("experiment {}: a verdict {}: {}", books_->record().id,
                is_refused ? "cannot be stored" : "is not stored yet", e.message);
  if (is_refused || !exists(id)) {
    if (promise) promise->deliver(message::done{});
    if (exists(id)) drop(id);
  } else if (promise) {
    promise->deliver(to_caf(std::move(e)));  // the device sends its result again and keeps its lease
  } else {
    later(id, [this, id, v, where] { commit(id, v, where, std::nullopt); });
  }
}

void experiment_flow::settled(slot_id id, const verdict& v) {
  const slot s = take(id);
  // A group that is not stored is paid no rewards, so nothing is learned from it.
  if (const auto p = prompts_.find(s.prompt); p != prompts_.end() && !p->second.group.id.empty())
    p->second.members.push_back({s.variant, v});
  const bool is_best = books_->settle(s.task, v, clock::now());
  keep_if_hopeful(s);
  log(s, v);
  if (is_best)
    note("best", s,
         fmt::format("{}: {:.3f}x [{:.3f}, {:.3f}]", setup_.tasks[s.task]->name, v.score, v.score_interval.low,
                     v.score_interval.high));
  ask_opinion(s, v);
  reset_islands_if_due(s.task);
  repair_if_possible(s, v);
  check_prompt(s.prompt);
  fill();
  check_end();
}

void experiment_flow::log(const slot& s, const verdict& v) const {
  std::vector<std::string> stages;
  for (const auto& [stage, ms] : v.stage_ms)
    stages.push_back(fmt::format("{} {:.0f}", stage, ms));
  spdlog::info("experiment {}: {} {} {}{} ({} ms)", books_->record().id, setup_.tasks[s.task]->name,
               s.variant.id.substr(0, 12), enum_name(v.result),
               v.result == outcome::correct ? fmt::format(" {:.3f}x", v.score) : ": " + v.reason,
               fmt::join(stages, ", "));
}

void experiment_flow::end_attempt(slot_id id, const std::string& why, store::loss how,
                                  const std::function<void()>& then) {
  auto& s = slots_.at(id);
  s.offered = false;  // another report of this attempt comes too late
  ask_store<message::done>(
      message::lose_attempt{s.attempt, why, how},
      [this, id, then](const message::done&) {
        if (exists(id)) then();
      },
      [this, id, why, how, then](const error& e) {
        spdlog::error("experiment {}: the end of an attempt ({}) is not stored yet: {}", books_->record().id,
                      enum_name(how), e.message);
        if (exists(id)) later(id, [this, id, why, how, then] { end_attempt(id, why, how, then); });
      });
}

void experiment_flow::lose(slot_id id, const std::string& reason, store::loss where) {
  end_attempt(id, reason, where, [this, id, where] { lost(id, where); });
}

void experiment_flow::lost(slot_id id, store::loss where) {
  books_->count_fault();
  if (where == store::loss::on_device) return reserve(id);
  const int losses = slots_.at(id).losses++;
  later(
      id, [this, id] { reserve(id); },
      std::min(first_delay_after_loss * (1 << std::min(losses, 10)), longest_delay_after_loss));
}

void experiment_flow::not_recorded(slot_id id, const std::string& why) {
  if (!setup_.policy) problem_ = why;
  end_attempt(id, why, store::loss::unrecorded, [this, id, why] {
    const slot ended = take(id);
    const auto [task, prompt] = std::pair(ended.task, ended.prompt);
    books_->not_recorded(task, setup_.unrecorded_allowed, why);
    check_prompt(prompt);
    if (!setup_.policy) books_->refuse_task(task, why);  // it has nothing else to evaluate
    fill();
    check_end();
  });
}

// ---- the end ------------------------------------------------------------------------------------------------------

// What is on a device is finished: a result of it is paid for. One written by hand has somebody who waits for it.
bool experiment_flow::is_withdrawing() const {
  return is_ending() && setup_.policy;
}

void experiment_flow::withdraw_waiting() {
  std::vector<slot_id> preparing;
  for (const auto& [id, s] : slots_)
    if (!s.offered && !s.attempt.variant.empty()) preparing.push_back(id);
  for (const slot_id id : preparing)
    withdraw(id);
  ask<message::withdrawn>(
      self_, setup_.node, store_timeout, message::withdraw{books_->record().id},
      [this](const message::withdrawn& m) {
        for (const auto& a : m.attempts)
          if (const auto id = find(a)) withdraw(*id);
      },
      [](const error& e) { spdlog::warn("the node does not give evaluations back: {}", e.message); });
}

void experiment_flow::withdraw(slot_id id) {
  end_attempt(id, "the experiment ended before it was on a device", store::loss::withdrawn, [this, id] { drop(id); });
}

void experiment_flow::note(const char* kind, const slot& s, const std::string& text) {
  self_->send(setup_.store,
              message::note_event{{0, unix_ms(), kind, books_->record().id, s.variant.task, s.variant.id, text}});
}

}  // namespace cudal1
