// The three stages of Contrastive-RL (CUDA-L1, arXiv 2507.14111) on a pretrained model's text.
//
//   supervised       chats are learned: the answers in them
//   self-supervised  the model's own answers are learned if they are correct
//   contrastive      groups of answers to one prompt are rewarded by their scores, and learned with GRPO or RLOO
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "policy/model/training/answer_groups.hpp"
#include "policy/model/training/chat_texts.hpp"

namespace cudal1 {

struct stages_options {
  uint64_t seed = 1;
  std::vector<training_stage> stages = {training_stage::supervised, training_stage::self_supervised,
                                        training_stage::contrastive};
  std::vector<int64_t> steps = {100, 20, 100};  // of each of these stages
  int64_t batch = 8;                            // chats a supervised step
  double rate = 1e-4;
  int64_t warm_up = 5;  // steps
  group_options groups;
  double ratio_clip = 0.2, kl_weight = 0.02, entropy_weight = 0, most_importance = 2;
  int64_t updates = 1;  // steps on one batch of answers
};
BOOST_DESCRIBE_STRUCT(stages_options, (),
                      (seed, stages, steps, batch, rate, warm_up, groups, ratio_clip, kl_weight, entropy_weight,
                       most_importance, updates))

// errc::invalid_argument names the number that does not fit.
expected<void> check_stages(const stages_options& o);

// After each step.
struct stage_progress {
  training_stage stage = training_stage::supervised;
  int64_t step = 0, steps = 0;  // of the stage, from 0
  text_report report;
  int64_t answers = 0;                     // judged
  double correct = 0, mean = 0, best = 0;  // share of correct answers; scores of all; best so far
  std::map<std::string, int64_t> outcomes = {};
  std::string problem = {};                             // of the first answer that failed
  double generated_tokens_s = 0, trained_tokens_s = 0;  // a second of generating, of training
  double generating = 0, training = 0, waiting = 0;     // shares of the time so far; waiting: for evaluations
  double seconds = 0;                                   // since the training began, with earlier runs
};
BOOST_DESCRIBE_STRUCT(stage_progress, (),
                      (stage, step, steps, report, answers, correct, mean, best, outcomes, problem, generated_tokens_s,
                       trained_tokens_s, generating, training, waiting, seconds))

class text_stages {
 public:
  // What must outlive it, and has one model. The chats are those of the supervised stage, and the judge may be null
  // where there is no other one. errc::invalid_argument where something is missing or no chat fits the model's context;
  // errors of texts_of.
  struct parts {
    text_trainer* trainer = nullptr;
    language_model* sampler = nullptr;  // of the same files: gets the trainer's adapter
    const local_checkpoint* files = nullptr;
    answer_judge* judge = nullptr;
  };
  static expected<text_stages> make(const parts& of, const std::vector<training_chat>& chats,
                                    const stages_options& how);

  // What is left of all stages; `after_step` may return false to stop there. errc::not_found where the judge has no
  // prompt.
  expected<void> run(const std::function<bool(const stage_progress&)>& after_step);
  bool finished() const { return state_.stage >= how_.stages.size(); }
  int64_t steps_done() const { return state_.done; }  // of all stages
  // Chats that are longer than the model's context, and were left out.
  int64_t too_long() const { return too_long_; }

  // In the trainer's state; the options must be the same when it goes on.
  expected<void> save(const std::string& folder) const;
  expected<void> load(const std::string& folder);

  struct state {
    std::string of;  // the options
    std::size_t stage = 0;
    int64_t step = 0, done = 0;  // of the stage; of all
    double best = 0, generate_s = 0, train_s = 0, judge_s = 0, seconds = 0;
  };

 private:
  text_stages(const parts& of, stages_options how) : of_(of), how_(std::move(how)) {}
  std::string identity() const;
  optimizer_options optimizer() const;
  uint64_t seed_of_step() const;
  expected<void> supervised_step(stage_progress& now);
  expected<void> answered_step(stage_progress& now);

  parts of_;
  stages_options how_;
  std::vector<text_episode> chats_;
  int64_t too_long_ = 0;
  int64_t sampler_steps_ = -1;  // of the trainer when the sampler got its adapter
  state state_;
};
BOOST_DESCRIBE_STRUCT(text_stages::state, (), (of, stage, step, done, best, generate_s, train_s, judge_s, seconds))

}  // namespace cudal1
