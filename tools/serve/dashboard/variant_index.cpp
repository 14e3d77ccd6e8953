#include "tools/serve/dashboard/variant_index.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

namespace cudal1::serve {

namespace {

constexpr std::size_t most_events = 1000;  // at a time

uint64_t number_of_digits(std::string_view id) {
  uint64_t value = 0;
  std::from_chars(id.data(), id.data() + std::min<std::size_t>(id.size(), 16), value, 16);
  return value;
}

}  // namespace

expected<int64_t> last_event(store& s, int64_t known) {
  const auto has_after = [&](int64_t sequence) -> expected<bool> {
    CUDAL1_TRY(const auto found, s.events_after(sequence, 1));
    return !found.empty();
  };
  int64_t low = known, step = 1;  // the last event is at `low` or later
  for (;;) {
    CUDAL1_TRY(const bool more, has_after(low + step - 1));
    if (!more) break;
    low += step;
    step *= 2;
  }
  int64_t high = low + step - 1;  // at `high` or earlier
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    CUDAL1_TRY(const bool more, has_after(middle));
    if (more)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

uint32_t variant_index::number_of(const std::string& name) {
  const auto [at, is_new] = numbers_.emplace(name, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back(name);
  return at->second;
}

void variant_index::clear() {
  rows_.clear();
  places_.clear();
  curves_.clear();
  failures_.clear();
  state_ = {0, 0, false, state_.revision + 1};
}

void variant_index::add(const std::string& experiment, const verdict& v) {
  const auto task = number_of(v.task), in = number_of(experiment);
  const std::pair key(number_of_digits(v.variant), (uint64_t{task} << 32) | in);
  const auto [at, is_new] = places_.emplace(key, static_cast<uint32_t>(rows_.size()));
  if (is_new) rows_.push_back({.variant = v.variant, .task = task, .experiment = in});
  row& r = rows_[at->second];
  if (v.attempt <= r.attempt) return;  // known
  ++state_.read;
  r.attempt = v.attempt;
  if (r.confirmed <= v.confirmed) {
    r.result = v.result;
    r.confirmed = v.confirmed;
    r.score = v.result == outcome::correct ? v.score : 0;
    r.low = v.score_interval.low;
    r.high = v.score_interval.high;
    r.variant_us = v.variant_us;
    r.time_unix_ms = v.time_unix_ms;
  }
  auto& curve = curves_[{experiment, v.task}];
  cli::extend_curve(curve.points, ++curve.verdicts, v.score, v.confirmed);
  if (v.result == outcome::correct) return;
  auto& newest = failures_[{experiment, v.result}];
  if (v.time_unix_ms >= newest.time_unix_ms) newest = {v.variant, v.task, v.reason, v.time_unix_ms};
}

expected<void> variant_index::read_names(store& s) {
  CUDAL1_TRY(const auto tasks, s.tasks());
  const std::lock_guard guard(mutex_);
  for (const auto& t : tasks)
    task_names_[t.id] = t.name;
  return {};
}

expected<void> variant_index::read_all(const store_access& read, const std::function<bool()>& stops) {
  std::vector<tally_record> tallies;
  CUDAL1_CHECK(read([&](store& s) -> expected<void> {
    CUDAL1_TRY(last_event_, last_event(s, 0));
    CUDAL1_TRY(tallies, s.tallies());
    return read_names(s);
  }));
  {
    const std::lock_guard guard(mutex_);
    clear();
    for (const auto& t : tallies)
      state_.all += t.evaluations;
  }
  for (const auto& t : tallies) {
    if (stops()) return {};
    std::vector<verdict> verdicts;
    CUDAL1_CHECK(read([&](store& s) -> expected<void> {
      CUDAL1_TRY(verdicts, s.verdicts_of_task(t.task, t.experiment));
      return {};
    }));
    const std::lock_guard guard(mutex_);
    for (const auto& v : verdicts)
      add(t.experiment, v);
    ++state_.revision;
  }
  const std::lock_guard guard(mutex_);
  state_.complete = true;
  ++state_.revision;
  return {};
}

expected<void> variant_index::read_new(const store_access& read) {
  return read([&](store& s) -> expected<void> {
    CUDAL1_TRY(const auto events, s.events_after(last_event_, most_events));
    if (events.empty()) return {};
    std::set<std::tuple<std::string, std::string, std::string>> changed;
    for (const auto& e : events)
      if (e.kind == "verdict") changed.emplace(e.experiment, e.task, e.variant);
    CUDAL1_CHECK(read_names(s));
    for (const auto& [experiment, task, variant] : changed) {
      CUDAL1_TRY(const auto verdicts, s.verdicts_in_experiment(experiment, task, variant));
      const std::lock_guard guard(mutex_);
      for (const auto& v : verdicts)
        add(experiment, v);
    }
    const std::lock_guard guard(mutex_);
    last_event_ = events.back().sequence;
    state_.all = std::max(state_.all, state_.read);
    ++state_.revision;
    return {};
  });
}

expected<void> variant_index::update(const store_access& read, const std::function<bool()>& stops) {
  std::map<std::string, int64_t> pruned;
  CUDAL1_CHECK(read([&](store& s) -> expected<void> {
    CUDAL1_TRY(const auto experiments, s.experiments());
    for (const auto& e : experiments)
      if (e.pruned_unix_ms > 0) pruned[e.id] = e.pruned_unix_ms;
    return {};
  }));
  const bool is_first = !state().complete || pruned != pruned_;
  pruned_ = std::move(pruned);
  return is_first ? read_all(read, stops) : read_new(read);
}

// ---- answers --------------------------------------------------------------------------------------------------------

bool variant_index::matches(const row& r, const variant_query& q) const {
  return (q.task.empty() || names_[r.task] == q.task) &&
         (q.experiment.empty() || names_[r.experiment] == q.experiment) && (!q.result || r.result == *q.result);
}

// The place of each task in the order of their names.
std::vector<uint32_t> variant_index::ranks_of_tasks() const {
  std::vector<std::pair<std::string, uint32_t>> sorted;
  for (uint32_t i = 0; i < names_.size(); ++i) {
    const auto found = task_names_.find(names_[i]);
    sorted.emplace_back(found == task_names_.end() ? names_[i] : found->second, i);
  }
  std::ranges::sort(sorted);
  std::vector<uint32_t> ranks(names_.size());
  for (uint32_t rank = 0; rank < sorted.size(); ++rank)
    ranks[sorted[rank].second] = rank;
  return ranks;
}

bool variant_index::is_before(const row& a, const row& b, variant_order by, const std::vector<uint32_t>& ranks) const {
  switch (by) {
    case variant_order::score:
      return a.score < b.score;
    case variant_order::time:
      return a.time_unix_ms < b.time_unix_ms;
    case variant_order::duration:
      return a.variant_us < b.variant_us;
    case variant_order::task:
      return ranks[a.task] < ranks[b.task];
    case variant_order::experiment: {
      // "e9" before "e10".
      const auto &left = names_[a.experiment], &right = names_[b.experiment];
      return std::pair(left.size(), std::string_view(left)) < std::pair(right.size(), std::string_view(right));
    }
    case variant_order::outcome:
      return a.result < b.result;
  }
  return false;
}

variant_page variant_index::find(const variant_query& q) const {
  const std::lock_guard guard(mutex_);
  std::vector<const row*> found;
  for (const auto& r : rows_)
    if (matches(r, q)) found.push_back(&r);
  const auto ranks = ranks_of_tasks();
  variant_page page;
  page.found = found.size();
  const auto first = std::min(q.first, found.size()), last = std::min(first + q.most, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(last), found.end(),
                    [&](const row* a, const row* b) {
                      if (is_before(*a, *b, q.by, ranks)) return !q.descending;
                      if (is_before(*b, *a, q.by, ranks)) return q.descending;
                      if (a->time_unix_ms != b->time_unix_ms) return a->time_unix_ms > b->time_unix_ms;
                      return a->variant < b->variant;
                    });
  for (auto i = first; i < last; ++i) {
    const row& r = *found[i];
    page.rows.push_back({r.variant,
                         names_[r.task],
                         names_[r.experiment],
                         r.result,
                         r.score,
                         {r.low, r.high},
                         r.variant_us,
                         r.confirmed,
                         r.time_unix_ms});
  }
  return page;
}

std::map<std::string, variant_curve> variant_index::curves_of(const std::string& experiment) const {
  const std::lock_guard guard(mutex_);
  std::map<std::string, variant_curve> found;
  for (auto at = curves_.lower_bound({experiment, ""}); at != curves_.end() && at->first.first == experiment; ++at)
    found[at->first.second] = at->second;
  return found;
}

std::map<std::string, variant_curve> variant_index::curves_of_task(const std::string& task) const {
  const std::lock_guard guard(mutex_);
  std::map<std::string, variant_curve> found;
  for (const auto& [key, curve] : curves_)
    if (key.second == task) found[key.first] = curve;
  return found;
}

std::map<outcome, newest_failure_of> variant_index::failures_of(const std::string& experiment) const {
  const std::lock_guard guard(mutex_);
  std::map<outcome, newest_failure_of> found;
  for (const auto& [key, failure] : failures_) {
    if (!experiment.empty() && key.first != experiment) continue;
    auto& newest = found[key.second];
    if (failure.time_unix_ms >= newest.time_unix_ms) newest = failure;
  }
  return found;
}

variant_index::progress variant_index::state() const {
  const std::lock_guard guard(mutex_);
  return state_;
}

}  // namespace cudal1::serve
