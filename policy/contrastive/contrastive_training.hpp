// The three stages of Contrastive-RL (CUDA-L1, arXiv 2507.14111) on recorded tasks.
//
//   supervised       successes among candidates that are drawn by their estimates (or all alike) are learned, each with
//                    the analysis that it follows from and its decisions in random order: the first of 16 that is
//                    faster than all that was measured, or the fastest
//   self-supervised  the model's own answers are learned if they are correct
//   contrastive      groups of answers to one prompt are rewarded by their scores, and learned with GRPO
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "policy/contrastive/recorded_trial.hpp"
#include "policy/model/training/training_rules.hpp"

namespace cudal1 {

struct training_options {
  uint64_t seed = 1;
  int64_t supervised_steps = 150, self_supervised_steps = 20, contrastive_steps = 600;
  int64_t batch = 64;              // sequences a step
  int64_t group = 8;               // answers to a prompt
  int64_t measured = 4;            // of these, at most: a trial goes on with 1 to so many, the rest is only rewarded
  int64_t exemplars = 6;           // at most, in a prompt; 0: none, and no analysis
  double temperature = 1;          // of the draw of exemplars
  double estimate_weight = 0;      // of estimates of time in the choice of each word; 0: not used, as by older models
  int64_t trial_evaluations = 32;  // after which another task is searched
  int64_t islands = 1;             // in which a trial's exemplars evolve apart; 1: buckets of all of them
  double rate = 1e-3;
  double ratio_clip = 0.2, kl_weight = 0.02, entropy_weight = 0.02;
  double reference_share = 0.02;  // of the way to the model that the reference model goes after each step
  advantage_rule advantage = advantage_rule::group;
  reward_options reward = {};
};
BOOST_DESCRIBE_STRUCT(training_options, (),
                      (seed, supervised_steps, self_supervised_steps, contrastive_steps, batch, group, measured,
                       exemplars, temperature, estimate_weight, trial_evaluations, islands, rate, ratio_clip, kl_weight,
                       entropy_weight, reference_share, advantage, reward))

// errc::invalid_argument names the number that does not fit.
expected<void> check_training(const training_options& o);

// As its prompts choose exemplars, and searches with its model do.
exemplar_choice exemplar_choice_of(const training_options& o);

// After each step.
struct training_progress {
  training_stage stage = training_stage::supervised;
  int64_t step = 0, steps = 0;  // of the stage
  step_report report;
  double mean_score = 0;  // of the answers; 0 in the supervised stage
  double seconds = 0;     // since run() was called
};

class contrastive_training {
 public:
  // The writer is trained; tasks and writer must outlive it. errc::invalid_argument without a task.
  static expected<contrastive_training> make(candidate_writer& writer,
                                             std::vector<std::shared_ptr<const trial_task>> tasks,
                                             const training_options& how);
  // What is left of all stages; `after_step` may return false to stop there.
  expected<void> run(const std::function<bool(const training_progress&)>& after_step);
  bool finished() const { return done_ >= all_steps(); }
  // To go on from here, bit for bit on the same machine: weights, optimisers' state, trials, random state. To be
  // restored by a training of the same tasks and options only.
  std::string checkpoint() const;
  expected<void> restore(const std::string& checkpoint);

 private:
  struct searched {
    std::size_t task = 0;
    recorded_trial trial;
  };
  contrastive_training(candidate_writer& writer, std::vector<std::shared_ptr<const trial_task>> tasks,
                       const training_options& how);
  std::string identity() const;
  int64_t all_steps() const { return how_.supervised_steps + how_.self_supervised_steps + how_.contrastive_steps; }
  training_progress progress() const;  // of the next step
  expected<step_report> supervised_step();
  expected<step_report> self_supervised_step(double& mean_score);
  expected<step_report> contrastive_step(double& mean_score);
  optimizer_options optimizer() const;
  std::size_t below(std::size_t n);
  searched new_trial(std::size_t task);
  // A trial of a random task with some random candidates measured.
  searched begun_trial();
  std::vector<std::size_t> drawn_order(const recorded_trial& t);
  std::size_t success_of(const recorded_trial& t);
  // The advantages of a group.
  std::vector<double> worth_of(const std::vector<const recorded_candidate*>& records,
                               const std::vector<double>& scores) const;

  candidate_writer* writer_;
  std::vector<std::shared_ptr<const trial_task>> tasks_;
  training_options how_;
  std::unique_ptr<language_model> reference_;
  std::vector<searched> trials_;
  uint64_t random_;
  int64_t done_ = 0;  // steps, of all stages
};

}  // namespace cudal1
