// The write operations: one process, and in it one thread at a time.
#include <algorithm>
#include <future>
#include <iterator>
#include <map>
#include <unordered_map>

#include <fmt/ranges.h>

#include "config/base/utf8.hpp"
#include "config/base/wall_clock.hpp"
#include "store/encoding.hpp"
#include "store/exemplar_index.hpp"
#include "store/group_records.hpp"
#include "store/hack_records.hpp"
#include "store/pruner.hpp"
#include "store/queries.hpp"
#include "store/records.hpp"
#include "store/verdict_records.hpp"
#include "store/write_batch.hpp"

namespace cudal1 {

namespace {

constexpr int device_losses_allowed = 2;
// A variant that never gets to a verdict, for whatever reason, must not be tried for ever.
constexpr int losses_allowed = 20;

// The text of a verdict's event.
std::string summary(const verdict& v) {
  if (v.result != outcome::correct) return fmt::format("{}: {}", enum_name(v.result), v.reason);
  return fmt::format("{:.3f}x ({:.3f} to {:.3f}){}", v.score, v.score_interval.low, v.score_interval.high,
                     v.confirmed ? ", confirmed" : "");
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

  expected<attempt_record> reserve(const variant_record& v, const std::string& experiment) override;
  expected<void> lose(const attempt_record& a, const std::string& note, loss where) override;
  expected<void> commit(const attempt_record& a, const verdict& v, const environment& where) override;

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
  // Moves what was made to what is being written.
  void take_batch();
  // After the write of that.
  expected<void> settle(expected<void> written);
  // What is remembered may not be on disk.
  void forget() {
    leases_.clear();
    classes_.clear();
  }

  static std::string key_of(const attempt_record& a) {
    return keys::attempt(a.experiment, a.task, a.variant, a.number);
  }
  // An attempt at a variant that has no verdict.
  static std::vector<put> unfinished(const attempt_record& a) {
    std::string record = encode(a);
    return {{family::attempts, key_of(a), record},
            {family::unfinished, keys::attempts_of(a.experiment, a.task, a.variant), std::move(record)}};
  }
  static event_record event_of(const attempt_record& a, const char* kind, std::string text) {
    return {0, unix_ms(), kind, a.experiment, a.task, a.variant, std::move(text)};
  }

  expected<void> lose_leased();
  expected<void> end_unrecorded(attempt_record a, const std::string& note);
  expected<int> number_for_quarantine(const attempt_record& a);
  // All attempts of an experiment at a variant, in order.
  expected<std::vector<attempt_record>> attempts_at(const std::string& experiment, const std::string& task,
                                                    const std::string& variant);

  // An attempt that this writer reserved and that is still under way, and the island of its variant.
  struct lease {
    attempt_record attempt;
    int64_t island = no_island;
  };
  // An attempt as it is stored; none if it never was.
  expected<std::optional<attempt_record>> find_attempt(const attempt_record& a);
  expected<int64_t> island_of(const attempt_record& a);

  // The class of an environment. Its record is among `puts` unless it is stored.
  expected<std::string> class_of(const environment& where, std::vector<put>& puts);

  write_batch under_way_;                          // what is being written: only read until settle()
  write_batch batch_;                              // each change reads from it and writes into it; above under_way_
  std::unordered_map<std::string, lease> leases_;  // by key_of()
  std::map<std::string, std::string> classes_;     // by the ids of stored environments
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
  for (auto& e : events) {
    e.sequence = next_event_++;
    ++batched_.events;
    batch_.add({family::events, keys::event(e.sequence), encode(e)});
  }
  ++batched_.changes;
  return together_ ? expected<void>() : write_batched();
}

void store_writer::take_batch() {
  under_way_.take_from(batch_);
  written_ = std::exchange(batched_, {});
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

expected<attempt_record> store_writer::reserve(const variant_record& v, const std::string& experiment) {
  if (v.id.empty() || v.id.find('\0') != std::string::npos || v.task.empty())
    return fail(errc::invalid_argument, "a variant needs its id and its task's (id \"{}\", task \"{}\")", v.id, v.task);
  if (!is_valid_utf8(v.program))
    return fail(errc::invalid_argument, "the program of variant {} is not UTF-8 text", short_id(v.id));
  const auto known = [&](const std::string& what) {
    return fail(errc::already_exists, "variant {} has {} in experiment {}", short_id(v.id), what, experiment);
  };
  CUDAL1_TRY(const auto earlier, attempts_at(experiment, v.task, v.id));
  if (!earlier.empty()) {
    CUDAL1_TRY(const bool judged, any_record(batch_, family::results, keys::verdicts_of(v.task, experiment, v.id)));
    if (judged) return known("a verdict");
  }
  int lost = 0, lost_on_device = 0;
  std::string notes;
  for (const auto& a : earlier) {
    if (a.state == attempt_state::leased) return known(fmt::format("attempt {} under way", a.number));
    if (a.state == attempt_state::lost) {
      ++lost;
      if (a.on_device) ++lost_on_device;
      notes += (notes.empty() ? "" : "; ") + a.note;
    }
  }
  if (lost_on_device >= device_losses_allowed || lost >= losses_allowed)
    return fail(errc::variant_fault, "variant {} lost {} attempts in experiment {} ({}): quarantine it", short_id(v.id),
                lost, experiment, notes);

  attempt_record a{experiment, v.task,   v.id, earlier.empty() ? 1 : earlier.back().number + 1, attempt_state::leased,
                   "",         unix_ms()};
  variant_record kept = v;
  kept.experiment = experiment;
  if (kept.time_unix_ms == 0) kept.time_unix_ms = a.time_unix_ms;
  std::vector<put> puts = unfinished(a);
  // The program, most of the record, is kept once, with the variant's first use.
  CUDAL1_TRY(const auto first, batch_.get(family::variants, keys::variant(v.id)));
  if (!first) puts.push_back({family::variants, keys::variant(v.id), encode(kept)});
  kept.program.clear();
  puts.push_back({family::variants, keys::variant_use(v.id, v.task, experiment), encode(kept)});
  write_batch grouped(batch_);
  CUDAL1_CHECK(add_to_group(grouped, kept, experiment));
  std::ranges::move(grouped.take(), std::back_inserter(puts));
  CUDAL1_CHECK(write(std::move(puts)));
  leases_.insert_or_assign(key_of(a), lease{a, v.island});
  return a;
}

expected<std::optional<attempt_record>> store_writer::find_attempt(const attempt_record& a) {
  if (const auto known = leases_.find(key_of(a)); known != leases_.end()) return known->second.attempt;
  return load<attempt_record>(batch_, family::attempts, key_of(a), short_id(a.variant));
}

expected<int64_t> store_writer::island_of(const attempt_record& a) {
  if (const auto known = leases_.find(key_of(a)); known != leases_.end()) return known->second.island;
  CUDAL1_TRY(const auto use, load_use(batch_, {a.variant, a.experiment, a.task, a.number}));
  return use.island;
}

expected<void> store_writer::lose(const attempt_record& a, const std::string& note, loss where) {
  CUDAL1_TRY(auto stored, find_attempt(a));
  if (!stored)
    return fail(errc::not_found, "attempt {} at variant {} was never reserved in experiment {}", a.number,
                short_id(a.variant), a.experiment);
  leases_.erase(key_of(a));
  if (stored->state != attempt_state::leased)
    return {};  // it has ended already: the verdict, or the first loss, is kept
  if (where == loss::unrecorded) return end_unrecorded(std::move(*stored), note);
  stored->state = where == loss::withdrawn ? attempt_state::withdrawn : attempt_state::lost;
  stored->note = note;
  stored->on_device = where == loss::on_device;
  std::vector<put> puts = unfinished(*stored);
  if (where == loss::withdrawn) return write(std::move(puts), {event_of(a, "withdrawn", note)});
  CUDAL1_TRY(put tally, record_of_loss(batch_, a.experiment, a.task));
  puts.push_back(std::move(tally));
  return write(std::move(puts), {event_of(a, "fault", fmt::format("attempt {} lost: {}", a.number, note))});
}

// It is over: it is not repeated when the experiment is resumed.
expected<void> store_writer::end_unrecorded(attempt_record a, const std::string& note) {
  a.state = attempt_state::unrecorded;
  a.note = note;
  a.on_device = false;
  CUDAL1_TRY(put tally, record_of_unrecorded(batch_, a.experiment, a.task));
  return write({{family::attempts, key_of(a), encode(a)},
                {family::unfinished, keys::attempts_of(a.experiment, a.task, a.variant), std::nullopt},
                std::move(tally)},
               {event_of(a, "unrecorded", note)});
}

// Most variants have none: a query for the first, which RocksDB's filters answer, costs less than a scan, which reads a
// block of each table.
expected<std::vector<attempt_record>> store_writer::attempts_at(const std::string& experiment, const std::string& task,
                                                                const std::string& variant) {
  CUDAL1_TRY(const auto first, batch_.get(family::attempts, keys::attempt(experiment, task, variant, 1)));
  if (!first) return std::vector<attempt_record>();
  return load_all<attempt_record>(batch_, family::attempts, keys::attempts_of(experiment, task, variant));
}

// A quarantined verdict has no attempt of its own: it takes the number after the lost ones.
expected<int> store_writer::number_for_quarantine(const attempt_record& a) {
  CUDAL1_TRY(const auto earlier, attempts_at(a.experiment, a.task, a.variant));
  for (const auto& e : earlier)
    if (e.state == attempt_state::leased) return e.number;
  return earlier.empty() ? 1 : earlier.back().number + 1;
}

expected<void> store_writer::commit(const attempt_record& a, const verdict& v, const environment& where) {
  if (v.variant != a.variant || v.task != a.task)
    return fail(errc::invalid_argument, "the verdict of variant {} was committed to an attempt at {}",
                short_id(v.variant), short_id(a.variant));
  CUDAL1_TRY(const auto stored, find_attempt(a));
  // While an attempt is leased there is no verdict.
  if (!stored || stored->state != attempt_state::leased) {
    CUDAL1_TRY(const bool judged,
               any_record(batch_, family::results, keys::verdicts_of(a.task, a.experiment, a.variant)));
    if (judged) return {};
  }
  attempt_record ended = a;
  if (v.result == outcome::quarantined) {
    CUDAL1_TRY(ended.number, number_for_quarantine(a));
  } else {
    if (!stored)
      return fail(errc::not_found, "attempt {} at variant {} was never reserved in experiment {}", a.number,
                  short_id(a.variant), a.experiment);
    if (stored->state != attempt_state::leased && stored->state != attempt_state::finished)
      return fail(errc::cancelled, "attempt {} at variant {} was lost ({}): its verdict comes too late", a.number,
                  short_id(a.variant), stored->note);
    ended = *stored;
  }
  ended.state = attempt_state::finished;

  verdict kept = v;
  kept.attempt = ended.number;
  if (kept.time_unix_ms == 0) kept.time_unix_ms = unix_ms();
  if (kept.environment_id.empty()) kept.environment_id = where.id;
  std::vector<put> puts{{family::attempts, key_of(ended), encode(ended)},
                        {family::unfinished, keys::attempts_of(a.experiment, a.task, a.variant), std::nullopt}};
  CUDAL1_TRY(const std::string known_as, class_of(where, puts));
  event_record event = event_of(a, "verdict", summary(kept));
  const keys::verdict_key key{a.variant, a.experiment, a.task, ended.number};
  CUDAL1_TRY(const int64_t island, island_of(ended));
  write_batch records(batch_);
  CUDAL1_CHECK(add_verdict(records, key, std::move(kept), known_as, island,
                           is_replayed(where) ? verdict_source::replayed : verdict_source::measured));
  std::ranges::move(records.take(), std::back_inserter(puts));
  leases_.erase(key_of(ended));
  return write(std::move(puts), {std::move(event)});
}

expected<std::string> store_writer::class_of(const environment& where, std::vector<put>& puts) {
  if (where.id.empty()) return environment_class(where);
  if (const auto known = classes_.find(where.id); known != classes_.end()) return known->second;
  CUDAL1_TRY(const auto stored_value, batch_.get(family::environments, where.id));
  if (stored_value) return classes_[where.id] = environment_class(where);
  puts.push_back({family::environments, where.id, encode(where)});
  return environment_class(where);
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
  CUDAL1_CHECK(class_of(where, puts));
  return write(std::move(puts));
}

}  // namespace

expected<std::unique_ptr<store>> store::open(const std::string& folder) {
  return store_writer::open(folder);
}

}  // namespace cudal1
