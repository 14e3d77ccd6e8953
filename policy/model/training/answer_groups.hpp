// Groups of answers by a local model that is being trained: written, judged, repaired, paid.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/model/local/local_checkpoint.hpp"
#include "policy/model/training/text_trainer.hpp"
#include "policy/model/training/training_rules.hpp"

namespace cudal1 {

struct training_prompt {
  std::string task;  // its name
  std::vector<chat_message> messages;
  std::shared_ptr<const byte_automaton> shape;  // what an answer may be; null: anything
};

struct judged_answer {
  reward_member claim;                    // of the verdict
  std::string problem;                    // why it failed; "" if it did not
  std::optional<training_prompt> repair;  // how it may be asked to repair a failed answer
};

// Gives prompts, and says what answers to them are worth.
class answer_judge {
 public:
  virtual ~answer_judge() = default;
  // errc::not_found where there is none; the same seed and records give the same prompt.
  virtual expected<training_prompt> next_prompt(training_stage stage, uint64_t seed) = 0;
  // One for each answer. `round`: of repairs, 0 of first answers.
  virtual expected<std::vector<judged_answer>> judge(const training_prompt& to, std::span<const std::string> answers,
                                                     int64_t round) = 0;
  virtual expected<paid_group> pay(std::span<const reward_member> group) = 0;
};

struct group_options {
  int64_t prompts = 1;        // at a time
  int64_t group = 8;          // answers to each
  int64_t repair_rounds = 0;  // of a failed answer; with them it is one episode with one reward
  int64_t answer_tokens = 1024;
  double temperature = 1, top_p = 1;
  advantage_rule advantage = advantage_rule::group;
};
BOOST_DESCRIBE_STRUCT(group_options, (), (prompts, group, repair_rounds, answer_tokens, temperature, top_p, advantage))

// An answer with its repairs.
struct answer_episode {
  std::size_t prompt = 0;           // its number in the groups
  std::vector<text_episode> turns;  // with the advantage as their weight
  reward_member claim;              // of the last turn
  std::string problem;              // as in judged_answer
  double score = 0;                 // that was paid; 0 if it failed or is doubted
  bool is_paid = false;             // it counts in its group
};

struct answer_groups {
  std::vector<answer_episode> episodes;
  std::vector<std::string> tasks;  // by prompt
  generation_report generated;     // sums over the rounds
  double generate_s = 0, judge_s = 0;
};

// Writes groups of answers to the judge's next prompts, in turns with it. Errors of the judge, of the model, and
// errc::invalid_argument where a prompt and its answer do not fit the model's context.
expected<answer_groups> answered(const language_model& by, const local_checkpoint& files, answer_judge& judge,
                                 training_stage stage, const group_options& how, uint64_t seed);

}  // namespace cudal1
