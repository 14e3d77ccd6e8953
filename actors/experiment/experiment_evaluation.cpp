// Carries out what the evaluations of an experiment ask for (evaluation.hpp), and tells them what came of it.
#include "actors/experiment/experiment_actor.hpp"
#include "config/base/stopwatch.hpp"
#include "config/base/wall_clock.hpp"

namespace cudal1 {

std::optional<experiment_flow::slot_id> experiment_flow::find(const attempt_record& a) const {
  const auto found = offered_slots_.find({a.task, a.variant});
  if (found == offered_slots_.end()) return std::nullopt;
  const auto& work = slots_.at(found->second).work;
  return work->is_offered() && same_attempt(work->attempt(), a) ? std::optional(found->second) : std::nullopt;
}

experiment_flow::slot experiment_flow::take(slot_id id) {
  slot taken = std::move(slots_.extract(id).mapped());
  if (!taken.work) return taken;
  const auto offered = offered_slots_.find({taken.work->attempt().task, taken.work->attempt().variant});
  if (offered != offered_slots_.end() && offered->second == id) offered_slots_.erase(offered);
  return taken;
}

evaluation::surroundings experiment_flow::surroundings_of(const slot& s) const {
  evaluation::surroundings now{setup_.where, clock::now()};
  now.tensor_bytes = setup_.tensor_bytes;
  now.best = books_->best(s.task);
  now.is_ending = is_ending();
  now.is_withdrawing = is_withdrawing();
  if (device_gone_) now.no_device = problem_;
  now.no_attempts = books_->exhausted(s.task);
  return now;
}

void experiment_flow::begin_evaluation(slot_id id, given_variant what, look which) {
  auto& s = slots_.at(id);
  evaluation::subject subject;
  subject.experiment = books_->record().id;
  subject.task = setup_.tasks[s.task];
  subject.variant = std::move(what.variant);
  subject.program = std::move(what.program);
  subject.problem = std::move(what.problem);
  subject.is_given = s.prompt == 0;
  subject.second_look = which == look::second;
  if (s.prompt != 0) subject.asked = s.since;
  s.work.emplace(std::move(subject));
  tell(id, &evaluation::begin, surroundings_of(s));
}

void experiment_flow::carry_out(slot_id id, evaluation::effects all) {
  for (auto& each : all)
    std::visit([&](auto& e) { carry_out(id, e); }, each);
}

// ---- requests, which events answer --------------------------------------------------------------------------------

void experiment_flow::carry_out(slot_id id, const evaluation::reserve&) {
  const auto& s = slots_.at(id);
  ask_store<message::reserved>(
      message::reserve_attempt{s.work->variant(), books_->record().id, s.work->is_given() ? "" : setup_.reuse_class,
                               s.work->is_second_look()},
      [this, id](const message::reserved& r) {
        if (!exists(id)) return;
        store_trouble_logged_.clear();
        auto& done = slots_.at(id);
        if (done.prompt != 0) repeats_[done.task] = 0;
        tell(id, &evaluation::reserved, r, surroundings_of(done));
      },
      [this, id](const error& e) {
        if (exists(id)) tell(id, &evaluation::not_reserved, e, surroundings_of(slots_.at(id)));
      });
}

void experiment_flow::carry_out(slot_id id, const evaluation::compile&) {
  ask<shared_code>(
      self_, setup_.compiler, setup_.compile_timeout,
      message::compile{setup_.compile_target, slots_.at(id).work->program(), 0},
      [this, id](shared_code& code) {
        if (exists(id)) tell(id, &evaluation::compiled, std::move(code), surroundings_of(slots_.at(id)));
      },
      [this, id](const error& e) {
        if (exists(id)) tell(id, &evaluation::not_compiled, e, surroundings_of(slots_.at(id)));
      });
}

void experiment_flow::carry_out(slot_id id, const evaluation::offer&) {
  const auto& work = *slots_.at(id).work;
  offered_slots_[{work.attempt().task, work.attempt().variant}] = id;
  self_->send(setup_.node, message::work_item{0, books_->record().device, work.attempt(), work.task(), work.program(),
                                              work.code(), work.is_second_look()});
}

caf::result<message::done> experiment_flow::work_done(message::work_done&& m) {
  auto promise = self_->make_response_promise<message::done>();
  const auto id = find(m.attempt);
  if (!id) {  // late or repeated
    promise.deliver(message::done{});
    return promise;
  }
  auto& s = slots_.at(*id);
  s.reporters.push_back(promise);
  tell(*id, &evaluation::reported, std::move(m), surroundings_of(s));
  return promise;
}

void experiment_flow::carry_out(slot_id id, const evaluation::commit& e) {
  // Of earlier commits, since this one is not over yet.
  e.what->result.stage_ms["commit"] = std::exchange(last_commit_ms_, 0);
  ask_store<message::done>(
      *e.what,
      [this, id, took = stopwatch()](const message::done&) {
        last_commit_ms_ += took.ms();
        if (exists(id)) tell(id, &evaluation::committed);
      },
      [this, id](const error& why) {
        if (exists(id)) tell(id, &evaluation::not_committed, why);
      });
}

void experiment_flow::carry_out(slot_id id, const evaluation::end_attempt& e) {
  ask_store<message::done>(
      message::lose_attempt{slots_.at(id).work->attempt(), e.why, e.how},
      [this, id](const message::done&) {
        if (exists(id)) tell(id, &evaluation::attempt_ended, surroundings_of(slots_.at(id)));
      },
      [this, id](const error& why) {
        if (exists(id)) tell(id, &evaluation::attempt_not_ended, why);
      });
}

void experiment_flow::carry_out(slot_id id, const evaluation::wait& e) {
  if (!e.why.empty()) log_store_trouble(e.why);
  delayed_.push_back(
      {clock::now() + e.delay, id, [this, id] { tell(id, &evaluation::waited, surroundings_of(slots_.at(id))); }});
}

// ---- the rest -----------------------------------------------------------------------------------------------------

void experiment_flow::carry_out(slot_id id, const evaluation::acknowledge&) {
  for (auto& each : std::exchange(slots_.at(id).reporters, {}))
    each.deliver(message::done{});
}

void experiment_flow::carry_out(slot_id id, const evaluation::refuse& e) {
  log_store_trouble("a verdict is not stored yet: " + e.why.message);
  for (auto& each : std::exchange(slots_.at(id).reporters, {}))
    each.deliver(to_caf(e.why));
}

void experiment_flow::carry_out(slot_id, const evaluation::count_fault&) {
  books_->count_fault();
}

void experiment_flow::carry_out(slot_id id, const evaluation::refuse_task& e) {
  books_->refuse_task(slots_.at(id).task, e.why);
  if (!setup_.policy) problem_ = e.why;
}

void experiment_flow::carry_out(slot_id id, const evaluation::settle& e) {
  settled(take(id), e.what->result);
}

void experiment_flow::carry_out(slot_id id, const evaluation::drop& e) {
  if (!e.problem.empty()) spdlog::error("experiment {}: {}", books_->record().id, e.problem);
  drop(id);
}

void experiment_flow::carry_out(slot_id id, const evaluation::repeat&) {
  repeated(id);
}

void experiment_flow::carry_out(slot_id id, const evaluation::unrecorded& e) {
  const slot ended = take(id);
  books_->not_recorded(ended.task, setup_.unrecorded_allowed, e.why);
  check_prompt(ended.prompt);
  if (!setup_.policy) {  // it has nothing else to evaluate
    problem_ = e.why;
    books_->refuse_task(ended.task, e.why);
  }
  fill();
  check_end();
}

void experiment_flow::drop(slot_id id) {
  const slot dropped = take(id);
  if (dropped.work && dropped.work->is_second_look())
    books_->abandon(ledger::second_look{dropped.task, dropped.work->variant().id});
  else
    books_->abandon(dropped.task);
  check_prompt(dropped.prompt);
  check_end();
}

void experiment_flow::settled(const slot& s, const verdict& v) {
  // A group that is not stored is paid no rewards, so nothing is learned from it.
  if (const auto p = prompts_.find(s.prompt); p != prompts_.end() && !p->second.group.id.empty())
    p->second.members.push_back({s.work->variant(), v});
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
               s.work->variant().id.substr(0, 12), enum_name(v.result),
               v.result == outcome::correct ? fmt::format(" {:.3f}x", v.score) : ": " + v.reason,
               fmt::join(stages, ", "));
}

// Once an outage: a full disk may last.
void experiment_flow::log_store_trouble(const std::string& what) {
  const bool logged = std::exchange(store_trouble_logged_, what) == what;
  spdlog::log(logged ? spdlog::level::debug : spdlog::level::warn, "experiment {}: {}", books_->record().id, what);
}

// ---- the end ------------------------------------------------------------------------------------------------------

// What is on a device is finished: a result of it is paid for. One written by hand has somebody who waits for it.
bool experiment_flow::is_withdrawing() const {
  return is_ending() && setup_.policy;
}

void experiment_flow::withdraw_waiting() {
  std::vector<slot_id> preparing;
  for (const auto& [id, s] : slots_)
    if (s.work && !s.work->is_offered() && s.work->has_attempt()) preparing.push_back(id);
  for (const slot_id id : preparing)
    tell(id, &evaluation::withdraw);
  ask<message::withdrawn>(
      self_, setup_.node, store_timeout, message::withdraw{books_->record().id},
      [this](const message::withdrawn& m) {
        for (const auto& a : m.attempts)
          if (const auto id = find(a)) tell(*id, &evaluation::withdraw);
      },
      [](const error& e) { spdlog::warn("the node does not give evaluations back: {}", e.message); });
}

void experiment_flow::note(const char* kind, const slot& s, const std::string& text) {
  const auto& variant = s.work->variant();
  self_->send(setup_.store,
              message::note_event{{0, unix_ms(), kind, books_->record().id, variant.task, variant.id, text}});
}

}  // namespace cudal1
