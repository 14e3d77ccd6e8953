// The store as an actor: the only one that writes RocksDB.
#pragma once

#include <memory>

#include "actors/interfaces.hpp"
#include "store/store.hpp"

namespace cudal1 {

struct store_state {
  static constexpr const char* name = "store";
  std::shared_ptr<store> db;

  expected<message::done> keep_task(const message::keep_task& m);
  expected<experiment_record> create_experiment(const message::create_experiment& m);
  expected<message::done> save_experiment(const message::save_experiment& m);
  expected<message::loaded_experiment> load_experiment(const message::load_experiment& m);
  expected<message::running_experiments> list_running();
  expected<message::done> lose(const message::lose_attempt& m);
  expected<message::done> commit(const message::commit_verdict& m);
  expected<message::done> put_baseline(const message::put_baseline& m);
  expected<message::exemplars> draw_exemplars(const message::draw_exemplars& m);
  expected<message::score> best_score(const message::best_score& m);
  expected<message::done> save_policy(const message::save_policy& m);
  expected<message::policy_version> load_policy(const message::load_policy& m);
  void note_event(const message::note_event& m);
};

// To be spawned detached.
store_actor::behavior_type run_store(store_actor::stateful_pointer<store_state> self, std::shared_ptr<store> db);

}  // namespace cudal1
