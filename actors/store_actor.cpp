#include "actors/store_actor.hpp"

#include <set>

namespace cudal1 {

expected<message::done> store_state::keep_task(const message::keep_task& m) {
  if (db->get_task(m.record.id)) return message::done{};
  CUDAL1_CHECK(db->put_task(m.record));
  return message::done{};
}

expected<experiment_record> store_state::create_experiment(const message::create_experiment& m) {
  return db->create_experiment(m.record);
}

expected<message::done> store_state::save_experiment(const message::save_experiment& m) {
  CUDAL1_CHECK(db->update_experiment(m.record));
  return message::done{};
}

expected<message::loaded_experiment> store_state::load_experiment(const message::load_experiment& m) {
  message::loaded_experiment all;
  CUDAL1_TRY(all.record, db->get_experiment(m.experiment));
  std::set<std::string> judged;
  for (const auto& id : all.record.tasks) {
    CUDAL1_TRY(task_record t, db->get_task(id));
    all.tasks.push_back(std::move(t));
    CUDAL1_TRY(std::vector<verdict> found, db->verdicts_of_task(id, m.experiment));
    for (auto& v : found) {
      judged.insert(v.task + v.variant);
      all.verdicts.push_back(std::move(v));
    }
  }
  CUDAL1_TRY(all.attempts, db->attempts(m.experiment));
  std::set<std::string> listed;
  for (const auto& a : all.attempts) {
    const std::string key = a.task + a.variant;
    if (a.state != attempt_state::lost || judged.contains(key) || !listed.insert(key).second) continue;
    CUDAL1_TRY(variant_record v, db->get_variant(a.variant));
    v.task = a.task;  // the record is of the variant's first use, which may have been another
    v.experiment = a.experiment;
    all.unfinished.push_back(std::move(v));
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

expected<message::done> store_state::lose(const message::lose_attempt& m) {
  CUDAL1_CHECK(db->lose(m.attempt, m.note));
  return message::done{};
}

expected<message::done> store_state::commit(const message::commit_verdict& m) {
  CUDAL1_CHECK(db->commit(m.attempt, m.result, m.where));
  return message::done{};
}

expected<message::done> store_state::put_baseline(const message::put_baseline& m) {
  CUDAL1_CHECK(db->put_baseline(m.record, m.where));
  return message::done{};
}

expected<message::exemplars> store_state::draw_exemplars(const message::draw_exemplars& m) {
  CUDAL1_TRY(const std::vector<store::ranked> best,
             db->best(m.task, static_cast<std::size_t>(m.limit), false, m.experiment));
  message::exemplars drawn;
  for (const auto& b : best)
    drawn.items.push_back({b.variant.id, b.variant.schedule, b.result.score});
  return drawn;
}

expected<message::score> store_state::best_score(const message::best_score& m) {
  CUDAL1_TRY(const std::vector<store::ranked> best, db->best(m.task, 1, true, m.experiment));
  return message::score{best.empty() ? 1.0 : best.front().result.score};
}

expected<message::done> store_state::save_policy(const message::save_policy& m) {
  auto stored = db->get_policy(m.name);
  if (stored && stored->version >= m.version) return message::done{};
  CUDAL1_CHECK(db->put_policy(m.name, {m.version, m.blob}));
  return message::done{};
}

expected<message::policy_version> store_state::load_policy(const message::load_policy& m) {
  CUDAL1_TRY(store::policy_state s, db->get_policy(m.name));
  return message::policy_version{s.version, std::move(s.blob)};
}

void store_state::note_event(const message::note_event& m) {
  if (auto kept = db->add_event(m.event); !kept)
    spdlog::error("store: an event was not kept: {}", kept.error().message);
}

store_actor::behavior_type run_store(store_actor::stateful_pointer<store_state> self, std::shared_ptr<store> db) {
  prepare(self);
  auto& s = self->state;
  s.db = std::move(db);
  return {
      [&s](const message::keep_task& m) { return answer_at_edge(s.name, [&] { return s.keep_task(m); }); },
      [&s](const message::create_experiment& m) {
        return answer_at_edge(s.name, [&] { return s.create_experiment(m); });
      },
      [&s](const message::save_experiment& m) { return answer_at_edge(s.name, [&] { return s.save_experiment(m); }); },
      [&s](const message::load_experiment& m) { return answer_at_edge(s.name, [&] { return s.load_experiment(m); }); },
      [&s](const message::list_running&) { return answer_at_edge(s.name, [&] { return s.list_running(); }); },
      [&s](const message::reserve_attempt& m) {
        return answer_at_edge(s.name, [&] { return s.db->reserve(m.variant, m.experiment); });
      },
      [&s](const message::lose_attempt& m) { return answer_at_edge(s.name, [&] { return s.lose(m); }); },
      [&s](const message::commit_verdict& m) { return answer_at_edge(s.name, [&] { return s.commit(m); }); },
      [&s](const message::put_baseline& m) { return answer_at_edge(s.name, [&] { return s.put_baseline(m); }); },
      [&s](const message::draw_exemplars& m) { return answer_at_edge(s.name, [&] { return s.draw_exemplars(m); }); },
      [&s](const message::best_score& m) { return answer_at_edge(s.name, [&] { return s.best_score(m); }); },
      [&s](const message::save_policy& m) { return answer_at_edge(s.name, [&] { return s.save_policy(m); }); },
      [&s](const message::load_policy& m) { return answer_at_edge(s.name, [&] { return s.load_policy(m); }); },
      [&s](const message::note_event& m) { at_edge(s.name, [&] { s.note_event(m); }); },
  };
}

}  // namespace cudal1
