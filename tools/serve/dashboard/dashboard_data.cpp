#include "tools/serve/dashboard/dashboard_data.hpp"

#include <algorithm>
#include <cmath>

#include <spdlog/spdlog.h>

#include "actors/messages/protocol.hpp"
#include "config/base/describe.hpp"
#include "config/base/wall_clock.hpp"
#include "policy/graph/part_family.hpp"
#include "sandbox/evaluation_records.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::serve {

namespace {

constexpr std::chrono::seconds look_interval{1}, look_on{15};  // after a page was asked for
constexpr std::chrono::milliseconds old_snapshot{1500}, first_limit{8000};

cli::context quiet_context(std::string data) {
  cli::context c;
  c.data = std::move(data);
  c.quiet = true;
  return c;
}

// Of the node, what a page shows. For how long a machine has been in its state: in minutes.
std::string text_of_state(const cli::top_state& s) {
  std::string text = s.problem;
  if (auto node = s.node) {
    for (auto& m : node->machines)
      m.since_s = std::floor(m.since_s / 60);
    text += to_json(*node).text();
  }
  for (const auto& e : s.experiments)
    text += to_json(e.progress).text() + std::to_string(e.in_flight);
  return text;
}

}  // namespace

const experiment_record* store_snapshot::experiment(const std::string& id) const {
  const auto found = std::ranges::find(experiments, id, &experiment_record::id);
  return found == experiments.end() ? nullptr : &*found;
}

std::string store_snapshot::name_of(const std::string& task) const {
  const auto found = tasks.find(task);
  return found == tasks.end() ? cli::short_id(task) : found->second.name;
}

std::map<std::string, tally_record> store_snapshot::counts(const std::string& experiment) const {
  std::map<std::string, tally_record> sums;
  for (const auto& [id, all] : tallies) {
    if (!experiment.empty() && id != experiment) continue;
    const auto* record = this->experiment(id);
    // What was replayed is shown with its experiment only.
    if (experiment.empty() && record != nullptr && record->device.starts_with(replay_prefix)) continue;
    for (const auto& t : all)
      cli::add_tally(sums[t.task], t);
  }
  return sums;
}

const cli::top_experiment* dashboard_snapshot::running(const std::string& experiment) const {
  for (const auto& e : node.experiments)
    if (e.progress.experiment == experiment) return &e;
  return nullptr;
}

dashboard_data::dashboard_data(std::string data, std::function<void(int64_t)> changed)
    : context_(quiet_context(std::move(data))),
      changed_(std::move(changed)),
      watching_([this](const std::stop_token& stop) { watch(stop); }),
      indexing_([this](const std::stop_token& stop) { build_index(stop); }) {}

dashboard_data::~dashboard_data() = default;

bool dashboard_data::is_looked_at() const {
  return listeners_ > 0 || clock::now() < looked_until_;
}

std::shared_ptr<const dashboard_snapshot> dashboard_data::now() {
  std::unique_lock lock(mutex_);
  const auto asked = clock::now();
  looked_until_ = asked + look_on;
  woken_.notify_all();
  woken_.wait_for(lock, first_limit,
                  [&] { return snapshot_ && made_ >= asked - old_snapshot && made_ > expected_after_; });
  return snapshot_;
}

void dashboard_data::expect_change() {
  const std::lock_guard guard(mutex_);
  expected_after_ = clock::now();
  looked_until_ = expected_after_ + look_on;
  woken_.notify_all();
}

void dashboard_data::set_listeners(std::size_t count) {
  const std::lock_guard guard(mutex_);
  listeners_ = count;
  woken_.notify_all();
}

void dashboard_data::watch(const std::stop_token& stop) {
  for (bool is_first = true; !stop.stop_requested(); is_first = false) {
    // The first look is before anybody's, so that the first page does not wait for it.
    if (!is_first) {
      std::unique_lock lock(mutex_);
      if (!is_looked_at()) watcher_.reset();
      woken_.wait(lock, stop, [this] { return is_looked_at(); });
    }
    if (stop.stop_requested()) return;
    const auto began = clock::now();
    auto made = look();
    if (is_first)
      if (const auto read = rows(*made->records); !read && read.error().code != errc::not_found)
        spdlog::warn("the dashboard cannot read the tasks: {}", read.error().message);
    std::unique_lock lock(mutex_);
    snapshot_ = std::move(made);
    made_ = began;
    const auto revision = snapshot_->revision;
    woken_.notify_all();
    lock.unlock();
    changed_(revision);
    lock.lock();
    woken_.wait_until(lock, stop, began + look_interval, [&] { return expected_after_ > began; });
  }
}

std::shared_ptr<const dashboard_snapshot> dashboard_data::look() {
  auto made = std::make_shared<dashboard_snapshot>();
  if (!watcher_) watcher_.emplace(context_);
  made->node = watcher_->look();
  const auto before = records_;
  if (const auto read = read_records(); !read) made->problem = read.error().message;
  if (auto in_flight = read_in_flight(made->node)) made->in_flight = std::move(*in_flight);
  auto state = text_of_state(made->node) + made->problem;
  const auto index_revision = index_.state().revision;
  if (records_ != before || state != last_state_ || index_revision != index_revision_ || last_state_.empty())
    ++revision_;
  last_state_ = std::move(state);
  index_revision_ = index_revision;
  made->records = records_ ? records_ : std::make_shared<store_snapshot>();
  made->revision = revision_;
  made->made_unix_ms = unix_ms();
  return made;
}

// Only if the store has changed.
expected<void> dashboard_data::read_records() {
  {
    const std::unique_lock guard(store_mutex_);
    if (store_) {
      CUDAL1_CHECK(store_->refresh());
    } else {
      if (!cli::store_exists(context_)) return {};
      CUDAL1_TRY(store_, cli::open_for_reading(context_));
    }
  }
  const std::shared_lock guard(store_mutex_);
  CUDAL1_TRY(const int64_t last, last_event(*store_, records_ ? std::max<int64_t>(records_->last_event, 0) : 0));
  CUDAL1_TRY(auto experiments, store_->experiments());
  // An experiment's end has no event of its own that follows it.
  const auto same = [](const experiment_record& a, const experiment_record& b) {
    return a.state == b.state && a.active_s == b.active_s && a.pruned_unix_ms == b.pruned_unix_ms;
  };
  if (records_ && records_->last_event == last && std::ranges::equal(experiments, records_->experiments, same))
    return {};
  auto made = std::make_shared<store_snapshot>();
  made->last_event = last;
  made->experiments = std::move(experiments);
  CUDAL1_TRY(auto tallies, store_->tallies());
  for (auto& t : tallies)
    made->tallies[t.experiment].push_back(std::move(t));
  CUDAL1_TRY(auto tasks, store_->tasks());
  for (auto& t : tasks)
    made->tasks.emplace(t.id, std::move(t));
  CUDAL1_TRY(made->events, store_->events_after(last - static_cast<int64_t>(most_shown_events), most_shown_events));
  std::ranges::reverse(made->events);
  records_ = std::move(made);
  return {};
}

expected<std::map<std::string, std::vector<attempt_record>>> dashboard_data::read_in_flight(
    const cli::top_state& node) {
  std::map<std::string, std::vector<attempt_record>> found;
  for (const auto& e : node.experiments) {
    CUDAL1_TRY(auto open, with_store([&](store& s) { return s.unfinished_attempts(e.progress.experiment); }));
    std::erase_if(open, [](const attempt_record& a) { return a.state != attempt_state::leased; });
    std::ranges::sort(open, {}, &attempt_record::time_unix_ms);
    found[e.progress.experiment] = std::move(open);
  }
  return found;
}

void dashboard_data::build_index(const std::stop_token& stop) {
  // The first time it reads for seconds, with a reader of its own, so that the others can be refreshed meanwhile.
  std::unique_ptr<store> own;
  const auto read = [&](const std::function<expected<void>(store&)>& call) {
    return own ? call(*own) : with_store(call);
  };
  const auto update = [&]() -> expected<void> {
    if (!cli::store_exists(context_)) return {};
    if (!index_.state().complete) {
      CUDAL1_TRY(own, cli::open_for_reading(context_));
    }
    auto updated = index_.update(read, [&] { return stop.stop_requested(); });
    own.reset();
    return updated;
  };
  std::string told;
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      woken_.wait(lock, stop, [this] { return is_looked_at(); });
    }
    if (stop.stop_requested()) return;
    const auto began = clock::now();
    const auto updated = update();
    const auto problem = updated ? std::string() : updated.error().message;
    if (!problem.empty() && problem != told) spdlog::warn("the dashboard cannot read the variants: {}", problem);
    told = problem;
    std::unique_lock lock(mutex_);
    woken_.wait_until(lock, stop, began + look_interval, [] { return false; });
  }
}

expected<std::vector<cli::best_row>> dashboard_data::rows(const store_snapshot& records,
                                                          const std::string& experiment) {
  const auto counts = records.counts(experiment);
  std::vector<const task_record*> wanted;
  if (const auto* record = experiment.empty() ? nullptr : records.experiment(experiment)) {
    for (const auto& id : record->tasks)
      if (const auto found = records.tasks.find(id); found != records.tasks.end()) wanted.push_back(&found->second);
  } else {
    for (const auto& [id, t] : records.tasks)
      if (t.family != part_family && counts.contains(id)) wanted.push_back(&t);
    std::ranges::sort(wanted, {}, &task_record::name);
  }
  std::vector<cli::best_row> rows;
  const std::lock_guard guard(rows_mutex_);
  for (const auto* t : wanted) {
    const auto found = counts.find(t->id);
    const tally_record none;
    CUDAL1_TRY(auto row, with_store([&](store& s) {
                 return rows_.row(s, *t, experiment, found == counts.end() ? none : found->second);
               }));
    rows.push_back(std::move(row));
  }
  return rows;
}

expected<cli::best_row> dashboard_data::row_of_task(const store_snapshot& records, const std::string& task) {
  const auto found = records.tasks.find(task);
  if (found == records.tasks.end()) return fail(errc::not_found, "the store has no task {}", cli::short_id(task));
  const auto counts = records.counts();
  const auto count = counts.find(task);
  const std::lock_guard guard(rows_mutex_);
  return with_store([&](store& s) {
    return rows_.row(s, found->second, "", count == counts.end() ? tally_record{} : count->second);
  });
}

}  // namespace cudal1::serve
