// The prompts of an experiment: what its policy was asked for, what it proposes, and what its groups come to.
#include <algorithm>

#include "actors/experiment/experiment_actor.hpp"

namespace cudal1 {

namespace {

constexpr int failed_proposals_allowed = 5;
constexpr std::chrono::seconds policy_restart_limit{30};

// What a policy can do better if it is told what went wrong.
bool is_repairable(outcome o) {
  return o != outcome::correct && o != outcome::unexplained && o != outcome::unmeasurable && o != outcome::quarantined;
}

}  // namespace

message::propose experiment_flow::question_for(std::size_t task) {
  const auto& record = books_->record();
  message::propose m;
  m.what = setup_.tasks[task];
  m.experiment = record.id;
  m.device = record.device;
  return m;
}

void experiment_flow::ask_policy(std::size_t task, message::propose question) {
  if (question.group.empty()) {
    question.seed = books_->next_seed(task);
    question.turn = turns_[task]++;
  }
  const prompt_id id = ++last_prompt_;
  auto& p = prompts_[id];
  p.task = task;
  p.since = clock::now();
  p.first = last_slot_ + 1;
  for (int64_t i = 0; i < question.count; ++i) {
    auto& s = slots_[++last_slot_];
    s.task = task;
    s.prompt = id;
    s.proposing = true;
    s.since = p.since;
  }
  p.end = last_slot_ + 1;
  proposing_ += p.end - p.first;
  ask<message::ticket>(
      self_, setup_.policy->get().generator, policy_timeout, std::move(question),
      [this, id](const message::ticket& t) { asked(id, t); }, [this, id](const error& e) { not_asked(id, e); });
}

void experiment_flow::asked(prompt_id id, const message::ticket& t) {
  const auto p = prompts_.find(id);
  if (p == prompts_.end() || p->second.delivered) {  // it was abandoned meanwhile
    if (setup_.policy) self_->send(setup_.policy->get().generator, message::cancel_ticket{t.number});
    return;
  }
  p->second.ticket = t.number;
  tickets_[t.number] = id;
  p->second.group = t.group;
}

void experiment_flow::not_asked(prompt_id id, const error& e) {
  if (prompts_.contains(id)) end_prompt(id, e);
}

std::vector<experiment_flow::slot_id> experiment_flow::slots_of(const open_prompt& p) const {
  std::vector<slot_id> found;
  for (auto at = slots_.lower_bound(p.first); at != slots_.end() && at->first < p.end; ++at)
    found.push_back(at->first);
  return found;
}

std::vector<experiment_flow::slot_id> experiment_flow::waiting_slots(prompt_id id) const {
  std::vector<slot_id> found = slots_of(prompts_.at(id));
  std::erase_if(found, [this](slot_id each) { return !slots_.at(each).proposing; });
  return found;
}

void experiment_flow::end_proposing(slot& s) {
  if (std::exchange(s.proposing, false)) --proposing_;
}

void experiment_flow::proposed(message::proposed&& m) {
  const auto of = tickets_.find(m.ticket);
  const auto found = of == tickets_.end() ? prompts_.end() : prompts_.find(of->second);
  if (found == prompts_.end() || found->second.delivered) return;  // too late
  const prompt_id id = found->first;
  found->second.cost.add(m.cost);
  books_->count_answer(m.cost);
  const error none{m.code, m.none};
  if (const auto waiting = waiting_slots(id); !waiting.empty()) {
    auto& s = slots_.at(waiting.front());
    end_proposing(s);
    if (m.none.empty()) {
      failed_proposals_ = 0;
      refusals_[found->second.task] = 0;
      begin_evaluation(waiting.front(), {std::move(m.variant), m.program, m.problem});
    } else {
      no_proposal(waiting.front(), none);
    }
  }
  if (m.last)
    end_prompt(
        id, m.none.empty() ? error{errc::not_found, "the policy proposed fewer variants than it was asked for"} : none);
  note_waiting();
}

void experiment_flow::end_prompt(prompt_id id, const error& why) {
  const auto p = prompts_.find(id);
  if (p == prompts_.end()) return;
  p->second.delivered = true;
  for (const slot_id each : waiting_slots(id)) {
    end_proposing(slots_.at(each));
    no_proposal(each, why);
  }
  check_prompt(id);
}

void experiment_flow::no_proposal(slot_id id, const error& e) {
  const auto [task, prompt] = std::pair(slots_.at(id).task, slots_.at(id).prompt);
  if (e.code == errc::infrastructure || e.code == errc::timeout || e.code == errc::cancelled) {
    if (e.code != errc::cancelled) {
      spdlog::warn("experiment {}: no proposal: {}", books_->record().id, e.message);
      // Not at once: actors that died are being started again.
      if (++failed_proposals_ == 1) failed_proposals_since_ = clock::now();
      if (failed_proposals_ >= failed_proposals_allowed && !stopping_ &&
          clock::now() - failed_proposals_since_ > policy_restart_limit)
        end_early("the policy makes no proposals: " + e.message, afterwards::resumed_by_next_node);
    }
    return drop(id);
  }
  // One of several models may refuse, or have nothing left to spend: the others go on.
  const auto models = static_cast<int>(setup_.policy->get().traits.models.size());
  if (e.code != errc::not_found && ++refusals_[task] < models) {
    drop(id);
    return fill();
  }
  take(id);
  repeats_[task] = 0;
  books_->nothing_new(task, e.message);
  if (!books_->exhausted(task).empty())
    spdlog::info("experiment {}: {} is exhausted: {}", books_->record().id, setup_.tasks[task]->name, e.message);
  check_prompt(prompt);
  fill();
  check_end();
}

void experiment_flow::repeated(slot_id id) {
  const std::size_t task = slots_.at(id).task;
  if (++repeats_[task] >= setup_.proposals)
    return no_proposal(id, {errc::not_found, fmt::format("the policy's last {} proposals had all been evaluated before",
                                                         repeats_[task])});
  drop(id);
  fill();
}

void experiment_flow::check_prompt(prompt_id id) {
  const auto found = prompts_.find(id);
  if (found == prompts_.end() || !found->second.delivered) return;
  if (!slots_of(found->second).empty()) return;
  open_prompt p = std::move(found->second);
  if (const auto of = tickets_.find(p.ticket); of != tickets_.end() && of->second == id) tickets_.erase(of);
  prompts_.erase(found);
  if (!p.members.empty()) teach({setup_.tasks[p.task], books_->record().device, p.group, std::move(p.members)});
  // An experiment that will go on asks again for what it does not have.
  if (!p.group.id.empty() && !is_resumed_later_) close_group({p.group.id, p.cost});
}

void experiment_flow::end_late_prompts(clock::time_point now) {
  if (!setup_.policy) return;
  const auto actors = setup_.policy->get();
  std::vector<prompt_id> late;
  for (const auto& [id, p] : prompts_)
    if (!p.delivered && (is_ending() || now - p.since > actors.traits.patience)) late.push_back(id);
  for (const prompt_id id : late) {
    if (const int64_t ticket = prompts_.at(id).ticket; ticket != 0)
      self_->send(actors.generator, message::cancel_ticket{ticket});
    end_prompt(id, is_ending() ? error{errc::cancelled, "the experiment ends"}
                               : error{errc::timeout, "the policy took too long for its proposals"});
  }
}

void experiment_flow::ask_opinion(const slot& s, const verdict& v) {
  if (!setup_.policy || v.suspicion.empty()) return;
  const auto actors = setup_.policy->get();
  if (!actors.traits.gives_opinions) return;
  const lesson_id lesson = begin_lesson(lesson_of::policy);
  ask<answer_cost>(
      self_, actors.generator, actors.traits.patience,
      message::give_opinion{setup_.tasks[s.task], s.work->variant(), v},
      [this, lesson](const answer_cost& cost) {
        books_->count_answer(cost);
        end_lesson(lesson);
      },
      [this, lesson](const error& e) {
        spdlog::warn("experiment {}: no opinion of a suspicious variant: {}", books_->record().id, e.message);
        end_lesson(lesson);
      });
}

void experiment_flow::reset_islands_if_due(std::size_t task) {
  if (!setup_.policy) return;
  const int64_t interval = setup_.policy->get().traits.island_reset, settled = ++settled_[task];
  if (interval <= 0 || settled % interval != 0) return;
  ask_store<message::done>(
      message::reset_islands{setup_.tasks[task]->id, environment_class(setup_.where), books_->next_seed(task)},
      [](const message::done&) {}, [](const error& e) { spdlog::warn("islands were not reset: {}", e.message); });
}

void experiment_flow::repair_if_possible(const slot& s, const verdict& v) {
  const auto p = prompts_.find(s.prompt);
  if (p == prompts_.end() || !is_repairable(v.result) || is_ending()) return;
  const int64_t round = p->second.group.round + 1;
  if (round <= setup_.policy->get().traits.repair_rounds) repairs_.push_back({s.task, s.work->variant().id, round});
}

// The policy keeps the devices waiting while all that there is are proposals that have not come.
void experiment_flow::note_waiting() {
  const bool waits = !slots_.empty() && proposing_ == slots_.size();
  const auto now = clock::now();
  if (waiting_since_) books_->count_waiting(std::chrono::duration<double>(now - *waiting_since_).count());
  waiting_since_ = waits ? std::optional(now) : std::nullopt;
}

void experiment_flow::teach(message::learn m) {
  const lesson_id lesson = begin_lesson(lesson_of::policy);
  ask<message::done>(
      self_, setup_.policy->get().learner, policy_timeout, std::move(m),
      [this, lesson](const message::done&) { end_lesson(lesson); },
      [this, lesson](const error& e) {
        spdlog::warn("experiment {}: the learner did not learn: {}", books_->record().id, e.message);
        end_lesson(lesson);
      });
}

void experiment_flow::close_group(const message::close_group& m) {
  const lesson_id lesson = begin_lesson(lesson_of::store);
  ask_store<message::done>(
      m, [this, lesson](const message::done&) { end_lesson(lesson); },
      [this, lesson](const error& e) {
        spdlog::warn("experiment {}: a group was not closed: {}", books_->record().id, e.message);
        end_lesson(lesson);
      });
}

}  // namespace cudal1
