// The write operations: one process, and in it one thread at a time.
#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include <fmt/ranges.h>

#include "config/base/wall_clock.hpp"
#include "store/attempt_changes.hpp"
#include "store/encoding.hpp"
#include "store/exemplar_index.hpp"
#include "store/group_records.hpp"
#include "store/hack_records.hpp"
#include "store/pruner.hpp"
#include "store/queries.hpp"
#include "store/write_batch.hpp"

namespace cudal1 {

namespace {

// Of one task, to be made in this order.
struct task_changes {
  task_changes(write_batch& before, attempt_leases& leases, stored_environments& environments)
      : made(before, leases, environments) {}
  std::vector<const std::function<void(attempt_store&)>*> make;
  attempt_changes made;
};

// A thread more is not worth its start for fewer changes: each takes about 0.1 ms.
constexpr std::size_t changes_a_thread = 16, most_threads = 6;

// Each task's on one thread; the longest first, so that none ends alone.
void make_at_once(std::map<std::string, task_changes>& of_tasks, std::size_t changes) {
  std::vector<task_changes*> order;
  for (auto& [task, of_task] : of_tasks)
    order.push_back(&of_task);
  std::ranges::sort(order, std::greater<>(), [](const auto* t) { return t->make.size(); });
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < order.size(); i = next++)
      for (const auto* make : order[i]->make)
        (*make)(order[i]->made);
  };
  const auto threads = std::min(
      {most_threads, order.size(), changes / changes_a_thread, std::size_t{std::thread::hardware_concurrency()}});
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < threads; ++i)
    others.push_back(std::async(std::launch::async, work));
  work();
}

class store_writer final : public store_queries {
 public:
  static expected<std::unique_ptr<store>> open(const std::string& folder) {
    CUDAL1_TRY(auto d, database::open_writer(folder));
    int64_t next_event = 1;
    CUDAL1_TRY(const auto last_event, d->last_key(family::events));
    if (last_event) next_event = static_cast<int64_t>(keys::reader(*last_event).number()) + 1;
    uint64_t next_experiment = 1;
    CUDAL1_TRY(const auto last_experiment, d->last_key(family::experiments));
    if (last_experiment) next_experiment = keys::reader(*last_experiment).number() + 1;
    std::unique_ptr<store_writer> w(new store_writer(std::move(d), next_event, next_experiment));
    CUDAL1_CHECK(w->lose_leased());
    return w;
  }

  expected<void> refresh() override { return {}; }

  expected<void> put_task(const task_record& t) override {
    if (t.id.empty()) return fail(errc::invalid_argument, "the task \"{}\" has no id", t.name);
    const std::string value = encode(t);
    CUDAL1_TRY(const auto stored_value, batch_.get(family::tasks, t.id));
    if (stored_value == value) return {};
    return write({{family::tasks, t.id, value}});
  }

  expected<experiment_record> create_experiment(experiment_record e) override {
    const uint64_t number = next_experiment_++;
    e.id = fmt::format("e{}", number);
    if (e.created_unix_ms == 0) e.created_unix_ms = unix_ms();
    CUDAL1_CHECK(write({{family::experiments, keys::writer().number(number).take(), encode(e)}}));
    return e;
  }

  expected<void> update_experiment(const experiment_record& e) override {
    const std::string key = keys::writer().number(keys::experiment_number(e.id).value_or(0)).take();
    CUDAL1_TRY(const auto stored_value, batch_.get(family::experiments, key));
    if (!stored_value) return fail(errc::not_found, "the store {} has no experiment \"{}\"", database_->folder(), e.id);
    return write({{family::experiments, key, encode(e)}});
  }

  expected<attempt_record> reserve(const variant_record& v, const std::string& experiment) override {
    return change_attempts(v.task, [&](attempt_changes& c) { return c.reserve(v, experiment); });
  }
  expected<attempt_record> reserve_again(const variant_record& v, const std::string& experiment) override {
    return change_attempts(v.task, [&](attempt_changes& c) { return c.reserve_again(v, experiment); });
  }
  expected<void> lose(const attempt_record& a, const std::string& note, loss where) override {
    return change_attempts(a.task, [&](attempt_changes& c) { return c.lose(a, note, where); });
  }
  expected<void> commit(const attempt_record& a, const verdict& v, const environment& where) override {
    return change_attempts(a.task, [&](attempt_changes& c) { return c.commit(a, v, where); });
  }

  expected<void> reset_islands(const std::string& task, const std::string& environment_class, uint64_t seed) override;

  expected<void> put_baseline(const baseline_record& b, const environment& where) override;

  expected<group_record> put_group(group_record g) override {
    return change([&](write_batch& b) { return add_group(b, timed(std::move(g))); });
  }
  expected<void> close_group(const std::string& id, const answer_cost& cost) override {
    return change([&](write_batch& b) { return cudal1::close_group(b, id, cost); });
  }
  expected<void> put_rewards(const reward_record& r) override {
    return change([&](write_batch& b) { return add_rewards(b, timed(r)); });
  }
  expected<void> put_opinion(const opinion_record& o) override {
    if (o.variant.empty() || o.task.empty())
      return fail(errc::invalid_argument, "an opinion needs its variant and its task");
    return write({{family::opinions, keys::opinion(o.variant, o.task, o.experiment, o.attempt), encode(o)}});
  }
  expected<void> put_judged_file(judged_file f) override {
    if (f.task.empty() || f.id.empty()) return fail(errc::invalid_argument, "a judged file needs its task and its id");
    if (f.time_unix_ms == 0) f.time_unix_ms = unix_ms();
    return write({{family::files, keys::file(f.task, f.id), encode(f)}});
  }
  expected<hack_case> put_hack_case(hack_case c) override {
    return change([&](write_batch& b) { return add_hack_case(b, timed(std::move(c))); });
  }

  expected<event_record> add_event(event_record e) override {
    if (e.time_unix_ms == 0) e.time_unix_ms = unix_ms();
    e.sequence = next_event_;
    CUDAL1_CHECK(write({}, {e}));
    return e;
  }

  expected<void> put_policy(const std::string& name, const policy_state& s) override {
    return write({{family::policies, name, keys::writer().number(static_cast<uint64_t>(s.version)).take() + s.blob}});
  }

  expected<void> write_together(const std::function<void()>& changes) override;
  expected<void> make_together(const std::function<void()>& changes) override;
  expected<void> make_of_tasks(const std::vector<task_change>& changes) override;
  void start_write(std::function<void()> done) override;
  expected<void> end_write() override;
  expected<void> recover() override { return disk().recover(); }
  expected<void> checkpoint(const std::string& folder) override { return disk().checkpoint(folder); }
  expected<void> compact() override { return disk().compact(); }

  expected<prune_report> prune(const prune_rule& rule, const std::string& from) override {
    CUDAL1_CHECK(recover());
    forget();
    return prune_step(disk(), rule, from);
  }

  store_statistics statistics() const override { return statistics_; }

 private:
  store_writer(std::unique_ptr<database> d, int64_t next_event, uint64_t next_experiment)
      : store_queries(std::move(d)),
        under_way_(disk()),
        batch_(under_way_),
        next_event_(next_event),
        next_experiment_(next_experiment) {}

  // What open() has made it of.
  database& disk() { return static_cast<database&>(*database_); }

  // One change that `make` puts into a batch; the answer is what it returns.
  template <class Make>
  auto change(Make make) -> std::invoke_result_t<Make, write_batch&> {
    write_batch changed(batch_);
    auto made = make(changed);
    if (!made) return made;
    CUDAL1_CHECK(write(changed.take()));
    return made;
  }
  template <class Record>
  static Record timed(Record r) {
    if (r.time_unix_ms == 0) r.time_unix_ms = unix_ms();
    return r;
  }
  // One change: on disk when this returns, or with the others of write_together().
  expected<void> write(std::vector<put> puts, std::vector<event_record> events = {});
  expected<void> write_batched();
  void add_numbered(event_record e);
  // Moves what was made to what is being written.
  void take_batch();
  // After the write of that.
  expected<void> settle(expected<void> written);
  // What is remembered may not be on disk.
  void forget() {
    leases_.clear();
    environments_.forget();
  }

  expected<void> lose_leased();
  // Changes of attempts at a task's variants, one or more that `make` makes.
  template <class Make>
  auto change_attempts(const std::string& task, Make make) -> std::invoke_result_t<Make, attempt_changes&>;
  // What attempt_changes have made becomes part of the batch.
  void take(attempt_changes& made);

  write_batch under_way_;                         // what is being written: only read until settle()
  write_batch batch_;                             // each change reads from it and writes into it; above under_way_
  std::map<std::string, attempt_leases> leases_;  // by task
  stored_environments environments_;
  bool together_ = false;
  int64_t next_event_;
  struct change_count {
    int64_t changes = 0, events = 0;
  };
  change_count batched_, written_;  // of batch_, of under_way_
  uint64_t next_experiment_;
  store_statistics statistics_;
  std::future<expected<void>> writing_;  // a write that was started
};

expected<void> store_writer::write(std::vector<put> puts, std::vector<event_record> events) {
  for (auto& p : puts)
    batch_.add(std::move(p));
  for (auto& e : events)
    add_numbered(std::move(e));
  ++batched_.changes;
  return together_ ? expected<void>() : write_batched();
}

void store_writer::add_numbered(event_record e) {
  e.sequence = next_event_++;
  ++batched_.events;
  batch_.add({family::events, keys::event(e.sequence), encode(e)});
}

void store_writer::take_batch() {
  under_way_.take_from(batch_);
  written_ = std::exchange(batched_, {});
}

void store_writer::take(attempt_changes& made) {
  for (auto& p : made.take_records())
    batch_.add(std::move(p));
  for (auto& e : made.take_events())
    add_numbered(std::move(e));
  batched_.changes += made.count();
}

template <class Make>
auto store_writer::change_attempts(const std::string& task, Make make) -> std::invoke_result_t<Make, attempt_changes&> {
  attempt_changes changes(batch_, leases_[task], environments_);
  auto made = make(changes);
  if (changes.count() == 0) return made;
  take(changes);
  if (!together_) CUDAL1_CHECK(write_batched());
  return made;
}

// Numbers of events that were not written are reused, so that a reader who follows them finds no gap.
expected<void> store_writer::settle(expected<void> written) {
  if (written) {
    if (!under_way_.empty()) ++statistics_.synced_batches;
    statistics_.changes += written_.changes;
  } else {
    next_event_ -= written_.events + std::exchange(batched_, {}).events;
    batch_.clear();
    forget();
  }
  under_way_.clear();
  return written;
}

expected<void> store_writer::write_batched() {
  if (writing_.valid()) return fail(errc::infrastructure, "a change was made while another batch is being written");
  take_batch();
  return settle(under_way_.write_copy());
}

expected<void> store_writer::write_together(const std::function<void()>& changes) {
  CUDAL1_CHECK(make_together(changes));
  return write_batched();
}

expected<void> store_writer::make_together(const std::function<void()>& changes) {
  if (!writing_.valid()) CUDAL1_CHECK(recover());
  together_ = true;
  changes();
  together_ = false;
  return {};
}

expected<void> store_writer::make_of_tasks(const std::vector<task_change>& changes) {
  if (!writing_.valid()) CUDAL1_CHECK(recover());
  std::map<std::string, task_changes> of_tasks;
  for (const auto& c : changes) {
    auto& of_task = of_tasks.try_emplace(c.task, batch_, leases_[c.task], environments_).first->second;
    of_task.make.push_back(&c.make);
  }
  make_at_once(of_tasks, changes.size());
  for (auto& [task, of_task] : of_tasks)
    take(of_task.made);
  return {};
}

void store_writer::start_write(std::function<void()> done) {
  take_batch();
  writing_ = std::async(std::launch::async, [this, done = std::move(done)] {
    auto written = under_way_.write_copy();
    done();
    return written;
  });
}

expected<void> store_writer::end_write() {
  return settle(std::exchange(writing_, {}).get());
}

// Marks the attempts as lost that were in flight when the last writer died: only they are repeated.
expected<void> store_writer::lose_leased() {
  CUDAL1_TRY(const auto all, load_all<attempt_record>(batch_, family::unfinished, ""));
  expected<void> lost;
  CUDAL1_CHECK(write_together([&] {
    for (const auto& a : all)
      if (lost && a.state == attempt_state::leased)
        lost = lose(a, "the node ended while it was in flight", loss::elsewhere);
  }));
  return lost;
}

expected<void> store_writer::reset_islands(const std::string& task, const std::string& environment_class,
                                           uint64_t seed) {
  return change([&](write_batch& b) { return cudal1::reset_islands(b, {task, environment_class}, seed); });
}

expected<void> store_writer::put_baseline(const baseline_record& b, const environment& where) {
  if (b.task.empty() || where.id.empty() || (!b.environment_id.empty() && b.environment_id != where.id))
    return fail(errc::invalid_argument, "a baseline needs its task and the environment it was measured in");
  if (std::find(baseline_kinds.begin(), baseline_kinds.end(), b.kind) == baseline_kinds.end())
    return fail(errc::invalid_argument, "there is no kind of baseline \"{}\"; the kinds are: {}", b.kind,
                fmt::join(baseline_kinds, ", "));
  baseline_record kept = b;
  kept.environment_id = where.id;
  if (kept.time_unix_ms == 0) kept.time_unix_ms = unix_ms();
  std::vector<put> puts{
      {family::baselines, keys::baseline(kept.task, where.id, kept.kind, kept.time_unix_ms), encode(kept)}};
  CUDAL1_CHECK(environments_.class_of(batch_, where, puts));
  return write(std::move(puts));
}

}  // namespace

expected<std::unique_ptr<store>> store::open(const std::string& folder) {
  return store_writer::open(folder);
}

}  // namespace cudal1
