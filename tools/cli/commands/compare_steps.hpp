// The steps of a comparison of arms that are commands of this program, each with a data folder of its own.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/arms/arm_records.hpp"
#include "tools/cli/arms/exemplar_pool.hpp"
#include "tools/cli/arms/experiment_plan.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

// Each step does nothing if it is done already, and goes on where it was ended. errc::infrastructure where a command
// fails; errc::cancelled after Ctrl-C.
struct comparison_steps {
  context c;
  std::string out;  // the comparison's folder
  const experiment_plan* plan = nullptr;
  std::string model, device, measured_on, precision, config;
  std::vector<std::string> settings;  // of nodes

  // OUT/pool.json: random schedules of the tasks that are held out, measured in OUT/data.
  bool has_pool() const;
  expected<void> measure_pool(const std::vector<task>& held_out) const;
  expected<exemplar_pool> read_pool() const;
  // OUT/train-data: the same of the tasks that are trained on, and of no other, so that nothing of a task that is held
  // out can be shown in training.
  expected<void> measure_training_pool(const std::vector<task>& trained) const;
  // OUT/chats-FORM.jsonl
  expected<void> make_chats(answer_form form, const std::vector<task>& trained) const;
  // OUT/training/FORM-SEED: trains for so many seconds at most (0: to the end), on a copy of OUT/train-data, so that no
  // training sees what another has measured.
  bool is_trained(answer_form form, uint64_t seed) const;
  std::string adapter_of(answer_form form, uint64_t seed, arm_weights after) const;
  expected<void> train(answer_form form, uint64_t seed, const std::vector<task>& trained,
                       const std::vector<std::string>& held_out, double seconds) const;
  // OUT/search-SEED: a search of the tasks that are held out, from nothing, with as many evaluations as other arms have
  // answers; its verdicts in the order of their evaluations.
  static bool is_searched(const arm_records& records, const plan_arm& arm, uint64_t seed,
                          const std::vector<std::string>& held_out);
  expected<void> search(arm_records& records, const arm_run& run, const plan_arm& arm, uint64_t seed,
                        const std::vector<task>& held_out) const;

 private:
  using words = std::vector<std::string>;
  std::string training_folder(answer_form form, uint64_t seed) const;
  void add_tasks(words& w, const std::vector<task>& tasks) const;
  void add_node_settings(words& w) const;
  // `fine`: other exit codes than 0.
  expected<void> command(words w, const std::string& data, const std::vector<int>& fine = {}) const;
  // The experiment of a policy in a data folder that has no other; it is begun, or goes on, unless it is finished.
  expected<std::string> searched(const std::string& data, const std::string& policy, int64_t evaluations, uint64_t seed,
                                 const std::vector<task>& tasks) const;
  context with_data(const std::string& data) const;
};

// Ends the node of a data folder, if there is one.
void end_node(const std::string& data);

}  // namespace cudal1::cli
