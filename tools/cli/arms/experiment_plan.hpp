// The plan of a comparison of arms, written down before anything is measured: a TOML file that names tasks, arms,
// counts, seeds, decoding and gates. The SHA-256 of the file's bytes names it, and stands in every report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/configuration.hpp"
#include "policy/model/training/adapter.hpp"
#include "policy/prompt/prompt_document.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1::cli {

// Which of the model's weights write: as they came, or after a stage of training.
BOOST_DEFINE_ENUM_CLASS(arm_weights, untrained, sft, self, contrastive)
BOOST_DEFINE_ENUM_CLASS(arm_prompt,
                        one_shot,     // no earlier variants
                        contrastive,  // with earlier variants and their scores
                        shuffled)     // the same variants, each with the score of another
BOOST_DEFINE_ENUM_CLASS(arm_search,
                        none,          // a model writes
                        evolutionary)  // the policy of that name, over schedules, from nothing

struct plan_arm {
  std::string name;
  arm_weights weights = arm_weights::untrained;
  arm_prompt prompt = arm_prompt::one_shot;
  arm_search search = arm_search::none;
};
BOOST_DESCRIBE_STRUCT(plan_arm, (), (name, weights, prompt, search))

// A task is held out if its program has one of these operators; the others are trained on, and have none of them.
// Without operators all are held out, which is for plans that train nothing.
struct plan_tasks {
  std::string folder;              // "": the built-in ones. Relative to the plan's folder
  std::vector<std::string> names;  // empty: all
  std::vector<std::string> held_out_operators;
};
BOOST_DESCRIBE_STRUCT(plan_tasks, (), (folder, names, held_out_operators))

// Random schedules of every task, measured before anything else: what is learned from, and what prompts show. Not those
// of held-out tasks where no arm shows them.
struct plan_pool {
  int64_t evaluations = 24;  // of each task
  uint64_t seed = 1;
};
BOOST_DESCRIBE_STRUCT(plan_pool, (), (evaluations, seed))

struct plan_prompts {
  std::string detail = "compact";  // as llm.prompt
  int64_t exemplars = 2;           // of the task's pool, from different buckets of scores where it has them
  double temperature = 0.5;        // of the softmax over scores when they are drawn
  int64_t answers = 8;             // to one prompt
  int64_t tokens = 4096;           // of a prompt at most
};
BOOST_DESCRIBE_STRUCT(plan_prompts, (), (detail, exemplars, temperature, answers, tokens))

struct plan_decoding {
  double temperature = 0.8, top_p = 0.95;
  int64_t tokens = 1024;  // longest answer
  bool constrained = true;
};
BOOST_DESCRIBE_STRUCT(plan_decoding, (), (temperature, top_p, tokens, constrained))

struct plan_training {
  std::vector<int64_t> steps = {100, 20, 100};  // of the stages sft, self and contrastive
  int64_t batch = 8;                            // chats a step of sft
  int64_t prompts = 1, group = 8, repairs = 0;  // a step of the others
  double rate = 1e-4, kl = 0.02;
  adapter_options adapter;
  int64_t chats = 64;     // of a task, at most, those with the best answers
  double better = 1.05;   // an answer of a chat is so many times as fast as the variants shown
  bool writable = false;  // chats whose answers a constrained model could not write are left out
};
BOOST_DESCRIBE_STRUCT(plan_training, (),
                      (steps, batch, prompts, group, repairs, rate, kl, adapter, chats, better, writable))

struct experiment_plan {
  std::string name;
  std::vector<answer_form> forms = {answer_form::schedule};
  std::vector<uint64_t> seeds = {1, 2};
  int64_t answers = 32;                       // of each arm, task and seed, each with its evaluation
  std::vector<int64_t> samples = {1, 8, 32};  // the best of so many is reported
  std::vector<std::string> settings;          // of the nodes: gates, times; "section.key=value"
  plan_tasks tasks;
  plan_pool pool;
  plan_prompts prompts;
  plan_decoding decoding;
  plan_training training;
  std::vector<plan_arm> arms;
  std::string sha256 = {};  // of the file

  bool trains() const;
  bool shows_variants() const;  // some arm has them in its prompts
  bool has_search() const;
};
BOOST_DESCRIBE_STRUCT(experiment_plan, (),
                      (name, forms, seeds, answers, samples, settings, tasks, pool, prompts, decoding, training, arms))

// `origin` is named in errors. errc::parse_error, errc::invalid_argument: an unknown key, a value of the wrong kind or
// out of range, two arms of one name, or arms that nothing can be compared with.
expected<experiment_plan> read_plan(std::string_view text, const std::string& origin);

// A key of the stages as `cudal1 train --stages` names them.
std::string stage_name(arm_weights w);

// The operators of a task's program, sorted, each once: "aten::mul.Tensor".
std::vector<std::string> operators_in(const task& t);

struct task_split {
  std::vector<task> trained, held_out;
};
// errc::invalid_argument where an operator is in no task, or one of the sides is empty though there are operators.
expected<task_split> split_tasks(std::vector<task> all, const plan_tasks& by);

// The settings of a policy llm that asks as the plan does.
language_model_options asking_as(const experiment_plan& plan, answer_form form);

}  // namespace cudal1::cli
