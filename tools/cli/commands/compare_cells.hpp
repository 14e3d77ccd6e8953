// Writes and judges the answers of a comparison's arms.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "policy/model/language_model.hpp"
#include "policy/model/local/local_checkpoint.hpp"
#include "policy/search/llm_prompt.hpp"
#include "tools/cli/arms/arm_records.hpp"
#include "tools/cli/arms/exemplar_pool.hpp"
#include "tools/cli/arms/experiment_plan.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

// What all cells share.
struct cells_setup {
  const experiment_plan* plan = nullptr;
  context c;                                       // of the data folder whose node judges
  std::vector<std::shared_ptr<const task>> tasks;  // held out
  exemplar_pool pool;
  std::shared_ptr<const local_checkpoint> files;
  const lowering_target* target = nullptr;
  environment where;       // that judges
  configuration settings;  // memory of the model's answers, how many at once, and the gates that prompts describe
  arm_records* records = nullptr;
  int64_t run = 0;
  std::size_t evaluators = 1;          // requests to the node at a time
  std::function<bool()> is_over = {};  // time is up, or Ctrl-C: nothing new is begun
  int wake_fd = -1;                    // of Ctrl-C
};

// Arms of one form and seed whose answers the same weights write.
struct cell_group {
  answer_form form = answer_form::schedule;
  uint64_t seed = 0;
  arm_weights weights = arm_weights::untrained;
  std::vector<plan_arm> arms = {};
};

class cell_runner {
 public:
  explicit cell_runner(cells_setup s) : s_(std::move(s)) {}

  // All prompts of the group fit: so that a plan whose prompts do not is refused before anything is written. Errors as
  // of write().
  expected<void> check_prompts(const cell_group& g);
  // Whether all answers are there, and whether all of these are judged.
  bool is_written(const cell_group& g) const;
  bool is_judged(const cell_group& g) const;
  // Writes those that are missing, all side by side; each is kept as soon as it is complete. What is drawn for an
  // answer depends on its seed, task and number alone, so that arms differ by their prompts and weights only. Errors of
  // the model, and errc::invalid_argument where a prompt does not fit its context.
  expected<void> write(const cell_group& g, const language_model& by);
  // Judges those that are there. A program that was judged for another answer in this class of environments has that
  // verdict: it is measured once. Errors of the node; errc::cancelled after Ctrl-C.
  expected<void> judge(const cell_group& g);

 private:
  struct written_prompt {
    std::vector<token> tokens;
    std::string id;
    std::vector<std::string> shown;
    int64_t left_out = 0;
  };
  std::vector<answer_key> keys_of(const cell_group& g) const;
  const std::shared_ptr<const task>& task_of(const std::string& name) const;
  expected<const written_prompt*> prompt_of(const answer_key& key, const plan_arm& arm);
  expected<text_request> request_of(const answer_key& key, const written_prompt& prompt);
  expected<std::shared_ptr<const token_masks>> masks_of(const answer_key& key);
  llm_request_writer& writer_of(answer_form form);
  // A program and the answers that wait for its verdict.
  struct waiting_program {
    std::shared_ptr<const task> what;
    std::string text, origin;
    std::vector<arm_verdict> answers;
  };
  expected<void> read_answer_of(const answer_key& key, std::map<std::string, waiting_program>& to);
  expected<void> evaluate(std::vector<waiting_program> programs, arm_phase& spent);

  cells_setup s_;
  std::map<answer_form, llm_request_writer> writers_;
  std::map<std::string, std::shared_ptr<const token_masks>> masks_;  // by form and task
  std::map<std::string, written_prompt> prompts_;                    // by form, task, arm's prompt, seed and number
};

// What a verdict says of an answer; the key and what is known of the program are given.
void note_verdict(const verdict& v, arm_verdict& to);

}  // namespace cudal1::cli
