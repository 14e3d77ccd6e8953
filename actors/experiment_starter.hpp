// Starts experiments: asks the store step by step, and hands the node each one that is ready. Part of the node's actor,
// in whose thread all of it runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actors/device_holds.hpp"
#include "actors/device_roster.hpp"
#include "actors/experiment_setup.hpp"
#include "actors/interfaces.hpp"
#include "actors/node_options.hpp"

namespace cudal1 {

class experiment_starter {
 public:
  using started_promise = caf::typed_response_promise<message::started>;
  using done_promise = caf::typed_response_promise<message::done>;
  // All of it is the node's, which has this as well.
  struct surroundings {
    node_actor::pointer node = nullptr;
    store_actor store;
    const node_options* options = nullptr;
    const device_roster* devices = nullptr;
    const device_holds* holds = nullptr;
    std::function<compiler_actor(const std::string& architecture)> compiler_for;
    std::function<expected<void>(experiment_setup)> launch;  // or says why it is too late
    std::function<void()> start_ended;                       // however it ended
  };

  void begin(surroundings s) { around_ = std::move(s); }
  // How many are not yet under way.
  int starting() const { return starting_; }

  // A new experiment, or (with an id) one that goes on. The promise is kept when it is launched, or cannot be.
  void start(message::start_experiment m, started_promise p);
  // Goes on with the experiments that ran when the last node ended.
  void resume(done_promise p);

 private:
  using given_variants = std::vector<given_variant>;

  // Each step goes on when the store has answered the last.
  expected<void> begin_start(message::start_experiment m, const started_promise& p);
  void keep_tasks(message::start_experiment m, std::vector<task_record> tasks, started_promise p);
  void create(message::start_experiment m, started_promise p);
  void load(const std::string& id, given_variants given, started_promise p);
  expected<experiment_setup> prepare(message::loaded_experiment all, given_variants given) const;
  void add_policy(experiment_setup setup, started_promise p);
  expected<void> spawn_policy(experiment_setup& setup, const message::policy_version& state);
  void launch(experiment_setup setup, started_promise p);
  void refuse(const std::string& id, started_promise& p, error e);

  void resume_next(std::vector<message::start_experiment> left, done_promise p);
  void cancel_by_hand(experiment_record record);

  surroundings around_;
  int starting_ = 0;
};

}  // namespace cudal1
