#include "actors/experiment/ledger.hpp"

#include <algorithm>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "sandbox/verify/compared_scores.hpp"

namespace cudal1 {

namespace {
constexpr std::chrono::seconds rate_window{10};
// Of second looks.
constexpr int most_looks = 2;
constexpr double cost_of_look = 2;            // of evaluations
constexpr double most_of_the_time = 1.0 / 3;  // that is kept for them
// Where time is limited, a task's turns are evaluations up to this many, and then of time on a device.
constexpr int64_t equal_turns = 4;
}  // namespace

ledger::ledger(experiment_record record, std::vector<std::string> names, time_point now, int64_t in_a_row)
    : record_(std::move(record)), in_a_row_(in_a_row), active_before_(record_.active_s), started_(now) {
  books_.resize(record_.tasks.size());
  record_.ended.clear();
  for (std::size_t i = 0; i < books_.size(); ++i) {
    books_[i].shown.task = record_.tasks[i];
    books_[i].shown.name = i < names.size() ? names[i] : "";
  }
}

bool ledger::may_take(const book& b) const {
  return !b.parked && b.exhausted.empty() && has_budget(b);
}

// What is in flight is taken to be like what has ended.
double ledger::device_ms_with(const book& b, int64_t in_flight) {
  const auto ended = static_cast<double>(std::max<int64_t>(b.shown.evaluations, 1));
  return b.device_ms * (1 + static_cast<double>(in_flight) / ended);
}

// For one evaluation after `more` others.
bool ledger::has_budget(const book& b, int64_t more) const {
  const int64_t under_way = b.in_flight + more;
  if (record_.device_s_per_task > 0 && device_ms_with(b, under_way) >= record_.device_s_per_task * 1e3) return false;
  return record_.evaluations_per_task <= 0 || b.shown.evaluations + under_way < record_.evaluations_per_task;
}

// A short budget is for proposals alone.
bool ledger::is_last_of_budget(const book& b) const {
  constexpr int64_t short_budget = 4;
  const bool is_short = record_.evaluations_per_task > 0 && record_.evaluations_per_task < short_budget;
  return !is_short && b.shown.evaluations > 0 && !has_budget(b, 1);
}

// Tasks with less of it come first. Of 125 KernelBench tasks nine take as long as all others together: in a limited
// time as many evaluations of each would leave them all with a third of what their searches need.
std::pair<bool, double> ledger::turns_of(std::size_t task) const {
  const book& b = books_[task];
  const int64_t turns = taken(task) / in_a_row_;
  if (record_.time_limit_s <= 0 || turns < equal_turns) return {false, static_cast<double>(turns)};
  return {true, device_ms_with(b, b.in_flight)};
}

// One turn for each device, so that all have work while each stays with one task.
void ledger::open_turns() {
  std::erase_if(turns_, [&](const auto& t) { return !may_take(books_[t.task]) || taken(t.task) >= t.until; });
  while (static_cast<int64_t>(turns_.size()) < std::max<int64_t>(devices_, 1)) {
    // The task that has had the least first, so that none falls behind; among equals the next one.
    std::optional<std::size_t> chosen;
    for (std::size_t k = 0; k < books_.size(); ++k) {
      const std::size_t i = (next_new_ + k) % books_.size();
      const bool open = std::ranges::any_of(turns_, [&](const auto& t) { return t.task == i; });
      if (!open && may_take(books_[i]) && (!chosen || turns_of(i) < turns_of(*chosen))) chosen = i;
    }
    if (!chosen) return;
    turns_.push_back({*chosen, (taken(*chosen) / in_a_row_ + 1) * in_a_row_});
    next_new_ = (*chosen + 1) % books_.size();
  }
}

std::optional<std::size_t> ledger::next_task(time_point now) {
  if (stopped_ || out_of_time(now)) return std::nullopt;
  open_turns();
  if (turns_.empty()) return std::nullopt;
  next_turn_ %= turns_.size();
  const std::size_t task = turns_[next_turn_++].task;
  ++books_[task].in_flight;
  return task;
}

bool ledger::take_more(std::size_t task, time_point now) {
  if (stopped_ || out_of_time(now) || !may_take(books_[task])) return false;
  ++books_[task].in_flight;
  return true;
}

uint64_t ledger::next_seed(std::size_t task) {
  auto& b = books_[task];
  const std::string text = fmt::format("{}/{}/{}", record_.seed, b.shown.task, b.proposals++);
  return fingerprint_of(text.data(), text.size(), record_.seed).low;
}

void ledger::abandon(std::size_t task) {
  --books_[task].in_flight;
}

void ledger::not_recorded(std::size_t task, int64_t limit, const std::string& reason) {
  auto& b = books_[task];
  --b.in_flight;
  ++unrecorded_;
  if (++b.unrecorded_in_a_row >= limit && b.exhausted.empty())
    end(task, fmt::format("the last {} proposals are not recorded; the last one: {}", limit, reason));
  if (b.in_flight == 0) b.parked = false;  // no verdict comes that would end it
}

void ledger::nothing_new(std::size_t task, const std::string& reason) {
  auto& b = books_[task];
  --b.in_flight;
  if (b.in_flight > 0) {
    b.parked = true;
  } else {
    end(task, reason);
  }
}

void ledger::end(std::size_t task, const std::string& reason) {
  books_[task].exhausted = reason;
  record_.ended[record_.tasks[task]] = reason;
}

void ledger::resume(std::size_t task, const tally_record& t) {
  auto& b = books_[task];
  b.shown.evaluations += t.evaluations;
  b.shown.correct += t.correct;
  b.best.score = t.best;
  b.shown.best_variant = t.best_variant;
  b.proposals += static_cast<uint64_t>(t.evaluations);
  for (const auto& [result, count] : t.outcomes)
    outcomes_[result] += count;
  for (const auto& [stage, ms] : t.stage_ms)
    stage_ms_[stage] += ms;
  b.device_ms += device_ms_of(t.stage_ms);
  faults_ += t.lost;
  reused_ += t.reused;
  unrecorded_ += t.unrecorded;
}

bool ledger::settle(std::size_t task, const verdict& v, time_point now) {
  auto& b = books_[task];
  --b.in_flight;
  recent_.push_back(now);
  while (!recent_.empty() && now - recent_.front() > rate_window)
    recent_.pop_front();
  b.parked = false;
  b.unrecorded_in_a_row = 0;
  ++b.shown.evaluations;
  if (!v.reused_from.empty()) ++reused_;
  ++outcomes_[enum_name(v.result)];
  for (const auto& [stage, ms] : v.stage_ms)
    stage_ms_[stage] += ms;
  b.device_ms += device_ms_of(v.stage_ms);
  note_hopeful(b, v);
  if (v.result != outcome::correct) return false;
  ++b.shown.correct;
  if (v.confirmed && v.near_eager && is_faster(v, b.best_near_eager)) b.best_near_eager = v;
  if (!v.confirmed || !is_faster(v, b.best)) return false;
  b.best = v;
  b.shown.best_variant = v.variant;
  return true;
}

// ---- second looks -------------------------------------------------------------------------------------------------

bool ledger::is_hopeful(const book& b, const hopeful& h) const {
  return h.looks < most_looks && !h.under_way && h.score.score_interval.low > b.bar(h.near_eager);
}

bool ledger::has_hopeful(const book& b) const {
  return std::ranges::any_of(b.hopefuls, [&](const auto& each) { return is_hopeful(b, each.second); });
}

bool ledger::is_hopeful(std::size_t task, const std::string& variant) const {
  const book& b = books_[task];
  const auto found = b.hopefuls.find(variant);
  return found != b.hopefuls.end() && is_hopeful(b, found->second);
}

// What could not be measured has an interval, too: it may be measurable the next time.
void ledger::note_hopeful(book& b, const verdict& v) const {
  const auto found = b.hopefuls.find(v.variant);
  if (found != b.hopefuls.end()) found->second.under_way = false;
  const bool is_right = v.result == outcome::correct || v.result == outcome::unmeasurable;
  const bool is_ahead = is_right && !v.confirmed && v.score_interval.low > b.bar(v.near_eager);
  if (second_looks_ && is_ahead) {
    b.hopefuls[v.variant].score = v;
    b.hopefuls[v.variant].near_eager = v.near_eager;
  } else if (found != b.hopefuls.end() && v.result != outcome::unmeasurable)
    b.hopefuls.erase(found);
}

// False as soon as the time that is left is what they, after all that is under way, are expected to need.
bool ledger::leaves_time_for_second_looks(time_point now) const {
  if (record_.time_limit_s <= 0) return true;
  double wanted = 0, device_ms = 0;
  int64_t ended = 0;
  for (const auto& b : books_) {
    wanted += static_cast<double>(b.in_flight) + (has_hopeful(b) ? cost_of_look : 0);
    device_ms += b.device_ms;
    ended += b.shown.evaluations;
  }
  const double mean_s = device_ms / 1e3 / static_cast<double>(std::max<int64_t>(ended, 1));
  const double kept_s = std::min(wanted * mean_s / static_cast<double>(std::max<int64_t>(devices_, 1)),
                                 record_.time_limit_s * most_of_the_time);
  return active_s(now) + kept_s < record_.time_limit_s;
}

std::optional<ledger::second_look> ledger::next_second_look(time_point now) {
  if (stopped_ || out_of_time(now)) return std::nullopt;
  const bool all = !leaves_time_for_second_looks(now);
  std::optional<second_look> chosen;
  double most = 0;
  for (std::size_t i = 0; i < books_.size(); ++i) {
    const book& b = books_[i];
    const bool is_over = !b.exhausted.empty() || (b.parked && b.in_flight == 0);
    if (!has_budget(b) || !(all || is_over || is_last_of_budget(b))) continue;
    for (const auto& [variant, h] : b.hopefuls) {
      const double gain = h.score.score_interval.low / b.bar(h.near_eager) / (1 + h.looks);
      if (!is_hopeful(b, h) || gain <= most) continue;
      most = gain;
      chosen = second_look{i, variant};
    }
  }
  if (!chosen) return std::nullopt;
  book& b = books_[chosen->task];
  ++b.in_flight;
  ++b.hopefuls.at(chosen->variant).looks;
  b.hopefuls.at(chosen->variant).under_way = true;
  return chosen;
}

void ledger::abandon(const second_look& s) {
  abandon(s.task);
  if (const auto found = books_[s.task].hopefuls.find(s.variant); found != books_[s.task].hopefuls.end())
    found->second.under_way = false;
}

bool ledger::idle() const {
  return std::all_of(books_.begin(), books_.end(), [](const book& b) { return b.in_flight == 0; });
}

bool ledger::complete(time_point now) const {
  if (!idle()) return false;
  return stopped_ || out_of_time(now) || std::none_of(books_.begin(), books_.end(), [&](const book& b) {
           return may_take(b) || (has_budget(b) && has_hopeful(b));
         });
}

bool ledger::out_of_time(time_point now) const {
  return record_.time_limit_s > 0 && active_s(now) >= record_.time_limit_s;
}

double ledger::active_s(time_point now) const {
  return active_before_ + std::chrono::duration<double>(now - started_).count();
}

double ledger::best(std::size_t task) const {
  return books_[task].best.score;
}

std::optional<std::size_t> ledger::index_of(const std::string& task) const {
  const auto found = std::find(record_.tasks.begin(), record_.tasks.end(), task);
  if (found == record_.tasks.end()) return std::nullopt;
  return static_cast<std::size_t>(found - record_.tasks.begin());
}

experiment_progress ledger::progress(time_point now) const {
  experiment_progress p;
  p.experiment = record_.id;
  p.model = record_.model;
  p.state = enum_name(record_.state);
  p.active_s = active_s(now);
  for (const auto& b : books_) {
    p.evaluations += b.shown.evaluations;
    if (record_.evaluations_per_task > 0)
      p.planned +=
          b.exhausted.empty() ? std::max(record_.evaluations_per_task, b.shown.evaluations) : b.shown.evaluations;
    p.tasks.push_back(b.shown);
    p.tasks.back().best = b.best.score;
  }
  const auto recent = std::count_if(recent_.begin(), recent_.end(), [&](auto t) { return now - t <= rate_window; });
  const double window = std::min(std::chrono::duration<double>(rate_window).count(),
                                 std::chrono::duration<double>(now - started_).count());
  p.evaluations_per_s = window > 0 ? static_cast<double>(recent) / window : 0;
  p.outcomes = outcomes_;
  p.infrastructure_faults = faults_;
  p.reused = reused_;
  p.answers = answers_;
  if (p.active_s > 0) p.policy_wait = std::min(1.0, record_.policy_wait_s / p.active_s);
  p.unrecorded = unrecorded_;
  p.stage_ms = stage_ms_;
  if (p.active_s > 0)
    p.device_busy = std::min(1.0, device_ms_of(stage_ms_) / 1000 / p.active_s / static_cast<double>(devices_));
  return p;
}

}  // namespace cudal1
