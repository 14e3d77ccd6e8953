// Searches of recorded tasks by several policies, so that they can be compared without a device: the same tasks, seeds
// and numbers of evaluations, each score drawn anew from the recorded pairs.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "policy/contrastive/recorded_trial.hpp"

namespace cudal1 {

// Measures at least one more candidate of each trial, and up to `most`; all have open ones.
using trial_step = std::function<expected<void>(std::span<recorded_trial*> trials, std::size_t most)>;

// Uniformly among the open candidates.
trial_step random_step();
// The open candidate with the shortest estimated time; corrected: by what was measured (candidate_estimates).
enum class estimates_use { alone, corrected };
trial_step estimate_step(estimates_use how);
// The policy evolutionary as it is. Its proposals that are not recorded are asked for again, and after some tries one
// of the open candidates is drawn; `fallbacks` counts these.
trial_step evolutionary_step(uint64_t seed, int64_t& fallbacks, const search_options& how = {});
// The model's answers, `most` to a prompt. Of equal ones one is measured. The writer must outlive it.
trial_step contrastive_step(const candidate_writer& writer, uint64_t seed, double temperature = 1);

// Scores of the best candidate so far after 1, 2, ... evaluations, as recorded_trial::best_so_far; the last one goes on
// where all candidates were measured.
struct trial_curves {
  std::size_t tasks = 0, seeds = 0, evaluations = 0;
  std::size_t trainings = 1;           // of the policy: the first of `seeds / trainings` searches are of the first one
  std::vector<std::string> operators;  // of each task
  std::vector<std::size_t> folds;      // of each task: each fold has its own trainings
  std::vector<double> values;          // [tasks][seeds][evaluations]
  double at(std::size_t task, std::size_t seed, std::size_t evaluation) const {
    return values[(task * seeds + seed) * evaluations + evaluation];
  }
};

struct trial_plan {
  std::size_t seeds = 20, first_seed = 1;
  std::size_t evaluations = 64;
  std::size_t a_prompt = 4;  // evaluations between two prompts
  exemplar_choice exemplars;
};

expected<trial_curves> run_trials(std::span<const std::shared_ptr<const trial_task>> tasks, const trial_plan& plan,
                                  const trial_step& step);
// The searches of several trainings, each of the tasks of several folds: [trainings][folds], all of as many searches
// and evaluations.
trial_curves joined(const std::vector<std::vector<trial_curves>>& by_training);

// An estimate with its 95% interval, from resampling operators with all their tasks, each fold's trainings, and of each
// task and training its searches, with replacement. With one training, what another one would change is not in it.
struct curve_estimate {
  double value = 0, low = 0, high = 0;
};
// A number of one trial, of which geometric means are taken.
using trial_number = std::function<double(const trial_curves& c, std::size_t task, std::size_t seed)>;
using trial_tasks = std::vector<std::shared_ptr<const trial_task>>;
// The score after so many evaluations, as a share of the task's best.
trial_number share_after(std::size_t evaluations, const trial_tasks& tasks);
// The geometric mean of that share over all numbers of evaluations: the area under the curve.
trial_number area_under(const trial_tasks& tasks);
// Evaluations until the score is at least `share` of the task's best; twice all of them where it never is.
trial_number evaluations_to(double share, const trial_tasks& tasks);

curve_estimate mean_of(const trial_curves& c, const trial_number& number);
// The mean of its ratio to another policy's, on the same tasks.
curve_estimate mean_ratio(const trial_curves& c, const trial_curves& to, const trial_number& number);

// Whether tasks with these operators are held out from training in a fold, 0 <= fold < folds. Tasks with the same
// operators are never on both sides.
bool is_held_out(const std::string& operators, std::size_t fold, std::size_t folds);

}  // namespace cudal1
