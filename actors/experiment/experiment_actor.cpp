#include "actors/experiment/experiment_actor.hpp"

#include <algorithm>

#include "config/base/wall_clock.hpp"

namespace cudal1 {

namespace {

constexpr std::chrono::milliseconds experiment_pulse{250};
constexpr std::chrono::seconds save_interval{5};
// For an experiment that should end while the store cannot be written.
constexpr std::chrono::seconds store_end_timeout{5};

// Answers of a store that works: what was asked for is known, or not possible.
bool is_answer_of_working_store(errc code) {
  return code == errc::cancelled || code == errc::not_found || code == errc::invalid_argument ||
         code == errc::already_exists || code == errc::variant_fault;
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
  if (setup_.second_looks && setup_.policy && !is_replayed(setup_.where)) books_->allow_second_looks();
  for (const auto& t : setup_.tallies)
    if (const auto task = books_->index_of(t.task)) books_->resume(*task, t);
  books_->count_answer(setup_.spent);
  given_.assign(setup_.given.begin(), setup_.given.end());
  repeats_.resize(setup_.tasks.size());
  settled_.resize(setup_.tasks.size());
  refusals_.resize(setup_.tasks.size());
  for (const auto& t : setup_.tasks) {
    const auto before = setup_.groups.find(t->id);
    turns_.push_back(before == setup_.groups.end() ? 0 : before->second);
  }
  save();  // that it runs: one that was stopped is resumed by the next node, too
  self_->send(experiment_actor(self_), message::tick{});
}

// ---- turns --------------------------------------------------------------------------------------------------------

void experiment_flow::fill() {
  if (stopping_ || ended_) return;
  take_given();
  if (setup_.policy) {
    ask_open_groups();
    take_repairs();
    const policy_traits traits = setup_.policy->get().traits;
    while (has_credit()) {
      if (take_second_look()) continue;
      const auto task = books_->next_task(clock::now());
      if (!task) break;
      auto question = question_for(*task);
      while (question.count < traits.group && books_->take_more(*task, clock::now()))
        ++question.count;
      ask_policy(*task, std::move(question));
    }
  }
  note_waiting();
}

// A policy that thinks for long is asked for many proposals at a time. Those that wait for a device count too, so that
// it is not asked for more than can be measured.
bool experiment_flow::has_credit() const {
  const int64_t in_flight = setup_.policy ? setup_.policy->get().traits.in_flight : 0;
  return slots_.size() < static_cast<std::size_t>(std::max<int64_t>(setup_.credit, in_flight));
}

void experiment_flow::take_repairs() {
  while (!repairs_.empty() && has_credit()) {
    const wanted_repair next = std::move(repairs_.front());
    repairs_.pop_front();
    if (!books_->take_more(next.task, clock::now())) continue;
    auto question = question_for(next.task);
    question.repair = next.variant;
    question.round = next.round;
    ask_policy(next.task, std::move(question));
  }
}

bool experiment_flow::take_second_look() {
  const auto look = books_->next_second_look(clock::now());
  if (!look) return false;
  const given_variant& kept = hopefuls_.at({look->task, look->variant});
  slots_[++last_slot_].task = look->task;
  begin_evaluation(last_slot_, kept, look::second);
  return true;
}

void experiment_flow::keep_if_hopeful(const slot& s) {
  const auto& variant = s.work->variant();
  const auto& program = s.work->program();
  const std::pair key(s.task, variant.id);
  if (program && books_->is_hopeful(s.task, variant.id))
    hopefuls_.insert_or_assign(key, given_variant{variant, program, ""});
  else
    hopefuls_.erase(key);
}

// The answers that the policy had completed when the last node ended are not paid for again.
void experiment_flow::ask_open_groups() {
  for (auto& g : std::exchange(setup_.open_groups, {})) {
    const auto task = books_->index_of(g.task);
    if (!task) continue;
    auto question = question_for(*task);
    question.group = g.id;
    question.count = 0;
    while (question.count < g.asked && books_->take_more(*task, clock::now()))
      ++question.count;
    if (question.count > 0) ask_policy(*task, std::move(question));
  }
}

void experiment_flow::take_given() {
  while (!given_.empty() && has_credit()) {
    given_variant next = std::move(given_.front());
    given_.pop_front();
    const auto task = books_->index_of(next.variant.task);
    if (!task) continue;
    books_->take(*task);
    slots_[++last_slot_].task = *task;
    begin_evaluation(last_slot_, std::move(next));
  }
}

// ---- queries and the end ------------------------------------------------------------------------------------------

experiment_progress experiment_flow::progress() const {
  auto p = books_->progress(clock::now());
  p.problem = store_problem_.empty() ? waits_for_ : store_problem_;
  if (p.problem.empty() && setup_.policy) p.problem = setup_.policy->get().trouble->text();
  return p;
}

void experiment_flow::devices_changed(const message::devices_changed& m) {
  if (ended_) return;
  waits_for_ = m.waits_for;
  setup_.credit = m.credit;
  books_->count_devices(std::max<int64_t>(m.count, 1));
  fill();
}

void experiment_flow::end_early(const std::string& problem, afterwards then) {
  problem_ = problem;
  stopping_ = true;
  is_resumed_later_ = then == afterwards::resumed_by_next_node;
  books_->stop();
  given_.clear();
}

expected<message::done> experiment_flow::stop(const message::stop_experiment& m) {
  if (ended_) return message::done{};
  // An experiment with a hand-written variant is not resumed: its client is gone once the node has ended.
  end_early(problem_, m.keep_running && setup_.policy ? afterwards::resumed_by_next_node : afterwards::done);
  check_end();
  return message::done{};
}

void experiment_flow::policy_restarted(const message::policy_restarted& m) {
  if (ended_) return;
  failed_proposals_ = 0;
  // What a generator or a learner had begun when it died is never answered.
  std::erase_if(lessons_, [](const auto& each) { return each.second == lesson_of::policy; });
  std::vector<prompt_id> lost;
  for (const auto& [id, p] : prompts_)
    if (!p.delivered) lost.push_back(id);
  for (const prompt_id id : lost)
    end_prompt(id, {errc::cancelled, "the policy was started again"});
  if (!m.problem.empty() && !stopping_) end_early(m.problem, afterwards::resumed_by_next_node);
  fill();
  check_end();
}

void experiment_flow::device_given_up(const message::device_given_up& m) {
  if (ended_) return;
  end_early(m.problem, afterwards::resumed_by_next_node);
  device_gone_ = true;
  std::vector<slot_id> offered;
  for (const auto& [id, s] : slots_)
    if (s.work && s.work->is_offered()) offered.push_back(id);
  for (const slot_id id : offered)
    tell(id, &evaluation::no_device, m.problem);
  check_end();
}

void experiment_flow::tick() {
  if (ended_) return;
  self_->delayed_send(experiment_actor(self_), experiment_pulse, message::tick{});
  run_delayed();
  const auto now = clock::now();
  if (is_ending() && !ending_since_) {
    ending_since_ = now;
    if (is_withdrawing()) withdraw_waiting();
  }
  if (ending_since_ && (now - *ending_since_ > setup_.end_timeout ||
                        (!store_problem_.empty() && now - store_failed_since_ > store_end_timeout)))
    abandon_rest();
  end_late_prompts(now);
  if (now - saved_ >= save_interval) save();
  fill();
  check_end();
}

void experiment_flow::run_delayed() {
  const auto now = clock::now();
  for (auto& each : std::exchange(delayed_, {})) {
    if (each.when > now && !is_ending())
      delayed_.push_back(std::move(each));
    else if (exists(each.slot))
      each.what();
  }
}

void experiment_flow::abandon_rest() {
  if (!slots_.empty() || !lessons_.empty())
    spdlog::warn("experiment {}: it should end, but {} evaluations and {} updates of its policy do not: abandoned",
                 books_->record().id, slots_.size(), lessons_.size());
  for (auto& [id, s] : std::exchange(slots_, {})) {
    books_->abandon(s.task);
    for (auto& each : s.reporters)
      each.deliver(message::done{});
    if (!s.work || !s.work->has_attempt()) continue;
    books_->count_fault();
    ask_store<message::done>(
        message::lose_attempt{s.work->attempt(), "the experiment ended before this evaluation did",
                              store::loss::elsewhere},
        [](const message::done&) {},
        [](const error& e) { spdlog::warn("an abandoned attempt is not stored as lost: {}", e.message); });
  }
  lessons_.clear();
  prompts_.clear();
  tickets_.clear();
  offered_slots_.clear();
  proposing_ = 0;
}

void experiment_flow::note_store_error(const error& e) {
  if (is_answer_of_working_store(e.code)) return store_problem_.clear();
  if (store_problem_.empty()) store_failed_since_ = clock::now();
  store_problem_ = e.message;
}

void experiment_flow::save() {
  saved_ = clock::now();
  auto record = books_->record();
  record.active_s = books_->active_s(saved_);
  ask_store<message::done>(
      message::save_experiment{record}, [](const message::done&) {},
      [](const error& e) { spdlog::error("the experiment's record was not stored: {}", e.message); });
}

void experiment_flow::check_end() {
  const auto now = clock::now();
  if (ended_ || !lessons_.empty() || !slots_.empty() || !given_.empty() || !books_->complete(now)) return;
  ended_ = true;
  auto& record = books_->record();
  record.active_s = books_->active_s(now);
  if (is_resumed_later_ && problem_.empty()) problem_ = "the node ended; the next node resumes the experiment";
  if (!is_resumed_later_) {
    record.state = stopping_ ? experiment_state::cancelled : experiment_state::finished;
    record.finished_unix_ms = unix_ms();
  }
  const message::experiment_ended last{progress(), problem_};
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
      [&s](message::work_done& m) { return s.work_done(std::move(m)); },
      [&s](message::proposed& m) { log_exceptions(s.name, [&] { s.proposed(std::move(m)); }); },
      [&s](const message::progress_query&) -> caf::result<experiment_progress> { return s.progress(); },
      [&s](const message::stop_experiment& m) { return reply_or_error(s.name, [&] { return s.stop(m); }); },
      [&s](const message::policy_restarted& m) { log_exceptions(s.name, [&] { s.policy_restarted(m); }); },
      [&s](const message::device_given_up& m) { log_exceptions(s.name, [&] { s.device_given_up(m); }); },
      [&s](const message::devices_changed& m) { log_exceptions(s.name, [&] { s.devices_changed(m); }); },
      [&s](const message::tick&) { log_exceptions(s.name, [&] { s.tick(); }); },
  };
}

}  // namespace cudal1
