// Judges the answers of a model that is being trained as a search would: by the node's gates, times and audits.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/clients/client.hpp"
#include "config/configuration.hpp"
#include "policy/model/training/answer_groups.hpp"
#include "policy/search/llm_prompt.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

// Prompts of tasks, the same as those of the policy llm, with earlier variants of the store; verdicts by a node's
// `evaluate`. One at a time: the model waits, so that a GPU which it shares with the variants is quiet meanwhile.
class node_judge final : public answer_judge {
 public:
  struct setup {
    const context* c = nullptr;
    node_client* node = nullptr;
    int wake_fd = -1;
    std::vector<std::shared_ptr<const task>> tasks;
    const lowering_target* target = nullptr;
    environment where;
    configuration settings;  // llm: form, exemplars and how they are drawn; reward; the gates that prompts describe
    prompt_room room;
    bool is_constrained = true;
    std::set<std::string> hidden = {};  // tasks whose programs are no examples
    int64_t repair_rounds = 0;
    std::string origin;  // of the variants in the store
  };
  explicit node_judge(setup s);
  // The connection to the node; before it is asked to judge.
  void use(node_client& node) { s_.node = &node; }

  // Of the contrastive stage with exemplars, of the self-supervised one without.
  expected<training_prompt> next_prompt(training_stage stage, uint64_t seed) override;
  expected<std::vector<judged_answer>> judge(const training_prompt& to, std::span<const std::string> answers,
                                             int64_t round) override;
  expected<paid_group> pay(std::span<const reward_member> group) override;

 private:
  expected<training_prompt> asked(const prompt& p);
  expected<void> add_exemplars(prompt& p) const;
  const std::shared_ptr<const task>& task_of(const training_prompt& p) const;
  // Of a proposal: what was wrong with it, or the node's verdict, which is asked for once for each program of `known`.
  expected<verdict> verdict_of(const proposal& idea, const task& what, variant_record& made,
                               std::map<std::string, verdict>& known);

  setup s_;
  answer_form form_;
  llm_request_writer requests_;
  std::map<std::string, std::shared_ptr<const byte_automaton>> shapes_;  // by the task's id
};

}  // namespace cudal1::cli
