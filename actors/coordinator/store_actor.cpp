#include "actors/coordinator/store_actor.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "actors/agent/hack_cases.hpp"
#include "config/base/blob.hpp"
#include "config/base/stopwatch.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

namespace {

tl::unexpected<error> not_made() {
  return fail(errc::cancelled, "the change was not made");
}

}  // namespace

// A promise, and what keeps it once `made` is written.
template <class Made>
auto store_state::answer_with(std::shared_ptr<Made> made)
    -> std::pair<caf::typed_response_promise<typename Made::value_type>, std::function<void(const expected<void>&)>> {
  auto promise = self->make_response_promise<typename Made::value_type>();
  return {promise, [made, promise](const expected<void>& written) mutable {
            if (written && *made) {
              promise.deliver(std::move(**made));
            } else {
              promise.deliver(to_caf(written ? made->error() : written.error()));
            }
          }};
}

template <class Make>
auto store_state::change(Make make) -> caf::result<typename std::invoke_result_t<Make>::value_type> {
  using made_type = std::invoke_result_t<Make>;
  auto made = std::make_shared<made_type>(not_made());
  auto [promise, answer] = answer_with(made);
  add({.make_rest = [made, make = std::move(make)] { *made = exceptions_as_errors(name, make); },
       .answer = std::move(answer)});
  return promise;
}

template <class Make, class Rest>
auto store_state::change_attempts(const std::string& task, Make make, Rest rest)
    -> caf::result<typename std::invoke_result_t<Make, attempt_store&>::value_type> {
  using made_type = std::invoke_result_t<Make, attempt_store&>;
  auto made = std::make_shared<made_type>(not_made());
  auto [promise, answer] = answer_with(made);
  waiting_change c{.answer = std::move(answer)};
  c.of_task = {task, [made, make = std::move(make)](attempt_store& attempts) {
                 *made = exceptions_as_errors(name, [&] { return make(attempts); });
               }};
  if constexpr (!std::is_null_pointer_v<Rest>)
    c.make_rest = [made, rest = std::move(rest)] {
      if (!*made) return;
      if (auto done = exceptions_as_errors(name, rest); !done) *made = tl::unexpected(std::move(done).error());
    };
  add(std::move(c));
  return promise;
}

template <class Read>
auto store_state::read(Read body) -> caf::result<typename std::invoke_result_t<Read>::value_type> {
  write_all();
  return reply_or_error(name, std::move(body));
}

void store_state::add(waiting_change c) {
  if (waiting.empty()) self->send(store_actor(self), message::tick{});
  waiting.push_back(std::move(c));
  if (waiting.size() >= most_in_a_batch) make_waiting();
}

void store_state::answer(std::vector<waiting_change>& changes, const expected<void>& written) {
  for (const auto& c : std::exchange(changes, {}))
    c.answer(written);
}

void store_state::make_waiting() {
  if (waiting.empty()) return;
  if (made.size() + waiting.size() > most_in_a_batch) end_write();  // of what is before `made`
  if (const auto ready = make_all(); !ready) {
    if (!std::exchange(failed, true)) recover();
    return answer(waiting, ready);
  }
  std::ranges::move(waiting, std::back_inserter(made));
  waiting.clear();
  if (under_way.empty()) start_write();
}

expected<void> store_state::make_all() {
  const auto changes_attempts = [](const waiting_change& c) { return static_cast<bool>(c.of_task.make); };
  for (auto at = waiting.begin(); at != waiting.end();) {
    const auto end =
        std::find_if(at, waiting.end(), [&](const auto& c) { return changes_attempts(c) != changes_attempts(*at); });
    if (changes_attempts(*at)) {
      std::vector<store::task_change> of_tasks;
      std::transform(at, end, std::back_inserter(of_tasks), [](auto& c) { return std::move(c.of_task); });
      CUDAL1_CHECK(db->make_of_tasks(of_tasks));
    }
    CUDAL1_CHECK(db->make_together([&] {
      for (; at != end; ++at)
        if (at->make_rest) at->make_rest();
    }));
  }
  return {};
}

void store_state::start_write() {
  if (made.empty()) return;
  under_way = std::exchange(made, {});
  writing = {};
  db->start_write([to = store_actor(self), number = ++writes] { caf::anon_send(to, message::tick{number}); });
}

// What was made since is made of what was not written, where that failed.
void store_state::end_write() {
  const auto written = db->end_write();
  counted.write_ms += writing.ms();
  if (!written && !std::exchange(failed, true)) recover();
  answer(under_way, written);
  if (!written) answer(made, written);
  start_write();
}

void store_state::write_all() {
  make_waiting();
  while (!under_way.empty())
    end_write();
}

// Reads fail while the database is closed, so it must not wait for the next write.
void store_state::recover() {
  if (const auto recovered = db->recover(); recovered) {
    failed = false;
  } else {
    self->delayed_send(store_actor(self), recovery_interval, message::tick{recovery});
  }
}

expected<message::done> store_state::keep_task(const message::keep_task& m) {
  const auto kept = db->get_task(m.record.id);
  const auto compared = [](const task_record& t) {
    const auto read = read_task(t.text, t.profile);
    return read && !is_uncompared(*read);
  };
  // A task is compared with its model once a device that can do so is at hand.
  if (kept && (kept->text == m.record.text || compared(*kept) || !compared(m.record))) return message::done{};
  CUDAL1_CHECK(db->put_task(m.record));
  return message::done{};
}

// errc::io_error, as of a full disk: experiments try again.
expected<void> store_state::check_room() const {
  if (disk.problem.empty()) return {};
  return fail(errc::io_error, "{}", disk.problem);
}

expected<message::created_experiments> store_state::create_experiments(const message::create_experiments& m) {
  CUDAL1_CHECK(check_room());
  message::created_experiments created;
  for (experiment_record record : m.records) {
    if (!created.records.empty()) record.lead = created.records.front().id;
    CUDAL1_TRY(created.records.emplace_back(), db->create_experiment(std::move(record)));
  }
  return created;
}

expected<message::done> store_state::save_experiment(const message::save_experiment& m) {
  CUDAL1_CHECK(db->update_experiment(m.record));
  return message::done{};
}

expected<message::loaded_experiment> store_state::load_experiment(const message::load_experiment& m) {
  message::loaded_experiment all;
  CUDAL1_TRY(all.record, db->get_experiment(m.experiment));
  for (const auto& id : all.record.tasks) {
    CUDAL1_TRY(task_record t, db->get_task(id));
    all.tasks.push_back(std::move(t));
  }
  CUDAL1_TRY(all.tallies, db->tallies(m.experiment));
  CUDAL1_TRY(const auto unfinished, db->unfinished_attempts(m.experiment));
  for (const auto& a : unfinished) {
    if (a.state != attempt_state::lost && a.state != attempt_state::withdrawn) continue;
    CUDAL1_TRY(variant_record v, db->get_variant(a.variant));
    v.task = a.task;  // the record is that of the variant's first use, maybe for another task
    v.experiment = a.experiment;
    all.unfinished.push_back(std::move(v));
  }
  CUDAL1_TRY(const auto groups, db->groups_of_experiment(m.experiment));
  for (const auto& g : groups) {
    ++all.groups[g.task];
    if (g.closed)
      all.spent.add(g.cost);
    else
      all.open_groups.push_back(g);
  }
  return all;
}

expected<message::running_experiments> store_state::list_running() {
  message::running_experiments running;
  CUDAL1_TRY(const std::vector<experiment_record> all, db->experiments());
  for (const auto& e : all)
    if (e.state == experiment_state::running) running.records.push_back(e);
  return running;
}

caf::result<message::done> store_state::lose_attempt(const message::lose_attempt& m) {
  return change_attempts(
      m.attempt.task,
      [m](attempt_store& attempts) -> expected<message::done> {
        CUDAL1_CHECK(attempts.lose(m.attempt, m.note, m.how));
        return message::done{};
      },
      [this, how = m.how]() -> expected<void> {
        ++counted.ended[std::string(enum_name(how))];
        return {};
      });
}

caf::result<message::done> store_state::commit_verdict(message::commit_verdict&& m) {
  const auto kept = std::make_shared<const message::commit_verdict>(std::move(m));
  return change_attempts(
      kept->attempt.task,
      [kept](attempt_store& attempts) -> expected<message::done> {
        CUDAL1_CHECK(attempts.commit(kept->attempt, kept->result, kept->where));
        return message::done{};
      },
      [this, kept] { return committed(*kept); });
}

caf::result<message::reserved> store_state::reserve_attempt(message::reserve_attempt&& m) {
  const std::string task = m.variant.task;
  return change_attempts(
      task, [this, m = std::move(m)](attempt_store& attempts) { return reserve(attempts, m); }, nullptr);
}

expected<void> store_state::committed(const message::commit_verdict& m) {
  CUDAL1_CHECK(keep_hack_case(m));
  ++counted.verdicts[std::string(enum_name(m.result.result))];
  for (const auto& [stage, ms] : m.result.stage_ms)
    counted.stage_ms[stage] += ms;
  return {};
}

// Most verdicts are no evidence, which their gates tell: only for the others is the variant read.
expected<void> store_state::keep_hack_case(const message::commit_verdict& m) {
  if (!hack_evidence_of(m.result)) return {};
  CUDAL1_TRY(const auto variant, db->get_variant(m.result.variant));
  if (auto c = hack_case_of(variant, m.result, m.attempt.experiment)) CUDAL1_CHECK(db->put_hack_case(std::move(*c)));
  return {};
}

expected<message::hack_cases> store_state::load_hack_cases(const message::load_hack_cases& m) {
  message::hack_cases found;
  CUDAL1_TRY(found.items, db->newest_hack_cases(m.after, static_cast<std::size_t>(m.limit)));
  return found;
}

expected<message::done> store_state::put_baseline(const message::put_baseline& m) {
  CUDAL1_CHECK(db->put_baseline(m.record, m.where));
  return message::done{};
}

expected<message::reserved> store_state::reserve(attempt_store& attempts, const message::reserve_attempt& m) const {
  CUDAL1_CHECK(check_room());
  message::reserved r;
  CUDAL1_TRY(r.attempt, m.second_look ? attempts.reserve_again(m.variant, m.experiment)
                                      : attempts.reserve(m.variant, m.experiment));
  if (m.reuse_class.empty()) return r;
  CUDAL1_TRY(auto known, db->verdict_in_class(m.variant.task, m.variant.id, m.reuse_class));
  if (known) r.known.push_back(std::move(*known));
  return r;
}

expected<message::done> store_state::close_group(const message::close_group& m) {
  CUDAL1_CHECK(db->close_group(m.group, m.cost));
  return message::done{};
}

expected<message::done> store_state::reset_islands(const message::reset_islands& m) {
  auto reset = db->reset_islands(m.task, m.environment_class, m.seed);
  if (!reset && reset.error().code == errc::not_found) return message::done{false};
  CUDAL1_CHECK(reset);
  return message::done{};
}

expected<message::done> store_state::put_rewards(const message::put_rewards& m) {
  CUDAL1_CHECK(db->put_rewards(m.rewards));
  return message::done{};
}

expected<message::best_result> store_state::best_score(const message::best_score& m) {
  CUDAL1_TRY(const std::vector<store::ranked> best,
             db->best(m.task, 1, m.near_eager ? store::ranking::near_eager : store::ranking::confirmed, m.experiment));
  message::best_result answer;
  answer.value.score = 1;
  if (!best.empty()) answer.value = best.front().result;
  return answer;
}

constexpr std::string_view state_ending = ".policy";

// A policy's state is a blob, and the record names it. Older records hold the state itself.
expected<std::string> store_state::state_of(const store::policy_state& stored) const {
  if (!is_blob_name(stored.blob, state_ending)) return stored.blob;
  return files->get(stored.blob);
}

// The key of an experiment's own state. That of all experiments together, the one saved last, is the policy's name.
std::string own_policy(const std::string& name, const std::string& experiment) {
  return name + "/" + experiment;
}

expected<std::optional<store::policy_state>> store_state::find_policy(const std::string& key) {
  auto stored = db->get_policy(key);
  if (stored) return std::move(*stored);
  if (stored.error().code == errc::not_found) return std::optional<store::policy_state>();
  return tl::unexpected<error>(std::move(stored).error());
}

expected<message::done> store_state::save_policy(const message::save_policy& m) {
  const std::string own = own_policy(m.name, m.experiment);
  CUDAL1_TRY(const auto stored, find_policy(own));
  const int64_t version = stored ? stored->version : 0;
  if (version != m.replaces)
    return fail(errc::already_exists,
                "experiment {}: version {} of policy {} would replace version {}, but {} is stored", m.experiment,
                m.version, m.name, m.replaces, version);
  CUDAL1_TRY(const std::string file, files->put(m.blob, state_ending));
  CUDAL1_CHECK(db->write_together([&] {
    for (const auto& key : {own, m.name})
      if (const auto put = db->put_policy(key, {m.version, file}); !put) spdlog::error("{}", put.error().message);
  }));
  if (stored) remove_unused_state(stored->blob);
  return message::done{};
}

// Each version of a policy can be megabytes; only states that a record names are loaded again.
void store_state::remove_unused_state(const std::string& blob) {
  if (!is_blob_name(blob, state_ending)) return;
  const auto is_used = db->has_policy_state(blob);
  if (is_used && *is_used) return;
  const auto removed = is_used ? files->remove(blob) : tl::unexpected(is_used.error());
  if (!removed) spdlog::warn("store: a policy's replaced state stays: {}", removed.error().message);
}

expected<message::policy_version> store_state::load_policy(const message::load_policy& m) {
  CUDAL1_TRY(auto own, find_policy(own_policy(m.name, m.experiment)));
  std::optional<store::policy_state> last;
  if (!own && !m.fresh) {
    CUDAL1_TRY(last, find_policy(m.name));
  }
  if (!own && !last) return message::policy_version{};
  message::policy_version v{own ? own->version : last->version, "", own ? own->version : 0};
  CUDAL1_TRY(v.blob, state_of(own ? *own : *last));
  return v;
}

void store_state::note_event(const message::note_event& m) {
  auto kept = std::make_shared<expected<event_record>>();
  add({.make_rest = [this, kept, m] { *kept = exceptions_as_errors(name, [&] { return db->add_event(m.event); }); },
       .answer =
           [kept](const expected<void>& written) {
             if (!written || !*kept)
               spdlog::error("store: an event was not stored: {}",
                             written ? kept->error().message : written.error().message);
           }});
}

message::store_metrics store_state::metrics() const {
  message::store_metrics m = counted;
  const store_statistics written = db->statistics();
  m.changes = written.changes;
  m.batches = written.synced_batches;
  m.writable = !failed;
  m.disk = disk;
  return m;
}

store_actor::behavior_type run_store(store_actor::stateful_pointer<store_state> self, std::shared_ptr<store> db,
                                     blobs files) {
  prepare(self);
  auto& s = self->state;
  s.self = self;
  s.db = std::move(db);
  s.files = std::move(files);
  // An exit may overtake the tick.
  self->set_exit_handler([&s](caf::exit_msg& m) {
    s.write_all();
    s.self->quit(m.reason);
  });
  return {
      [&s](const message::keep_task& m) { return s.read([&] { return s.keep_task(m); }); },
      [&s](const message::create_experiments& m) { return s.change([&s, m] { return s.create_experiments(m); }); },
      [&s](const message::save_experiment& m) { return s.change([&s, m] { return s.save_experiment(m); }); },
      [&s](const message::store_metrics_query&) -> caf::result<message::store_metrics> { return s.metrics(); },
      [&s](const message::load_experiment& m) { return s.read([&] { return s.load_experiment(m); }); },
      [&s](const message::list_running&) { return s.read([&] { return s.list_running(); }); },
      [&s](message::reserve_attempt& m) { return s.reserve_attempt(std::move(m)); },
      [&s](const message::lose_attempt& m) { return s.lose_attempt(m); },
      [&s](message::commit_verdict& m) { return s.commit_verdict(std::move(m)); },
      [&s](const message::put_baseline& m) { return s.change([&s, m] { return s.put_baseline(m); }); },
      [&s](const message::put_judged_file& m) {
        return s.change([&s, m]() -> expected<message::done> {
          CUDAL1_CHECK(s.db->put_judged_file(m.record));
          return message::done{};
        });
      },
      [&s](const message::put_group& m) { return s.change([&s, m] { return s.db->put_group(m.group); }); },
      [&s](const message::close_group& m) { return s.change([&s, m] { return s.close_group(m); }); },
      [&s](const message::put_opinion& m) {
        return s.change([&s, m]() -> expected<message::done> {
          CUDAL1_CHECK(s.db->put_opinion(m.opinion));
          return message::done{};
        });
      },
      [&s](const message::reset_islands& m) { return s.change([&s, m] { return s.reset_islands(m); }); },
      [&s](const message::put_rewards& m) { return s.change([&s, m] { return s.put_rewards(m); }); },
      [&s](const message::best_score& m) { return s.read([&] { return s.best_score(m); }); },
      [&s](const message::save_policy& m) { return s.read([&] { return s.save_policy(m); }); },
      [&s](const message::load_policy& m) { return s.read([&] { return s.load_policy(m); }); },
      [&s](const message::load_variant& m) { return s.read([&] { return s.db->get_variant(m.variant); }); },
      [&s](const message::load_hack_cases& m) { return s.read([&] { return s.load_hack_cases(m); }); },
      [&s](const message::note_event& m) { s.note_event(m); },
      [&s](const message::prune_store& m) { return s.read([&] { return s.db->prune(m.rule, m.from); }); },
      [&s](const message::disk_usage& m) { s.disk = m; },
      [&s](const message::tick& m) {
        if (m.number == store_state::recovery) return s.recover();
        // The end of a write, which write_all() may have waited for; 0: there are changes.
        if (m.number == s.writes && !s.under_way.empty()) s.end_write();
        s.make_waiting();
      },
  };
}

}  // namespace cudal1
