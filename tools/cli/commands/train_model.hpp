// cudal1 train --model: trains a pretrained language model on text, in the three stages.
#pragma once

#include <string>
#include <vector>

#include "policy/model/training/text_stages.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/node_process.hpp"

namespace cudal1::cli {

struct train_model_options {
  std::string model, folder, chats, out, device = "cpu", measured_on, precision = "auto", merged;
  std::vector<std::string> tasks, hidden, stages = {"sft", "self", "contrastive"};
  adapter_options adapter;
  stages_options how{.steps = {}, .groups = {.answer_tokens = 2048}};  // steps: none: as many as usual
  int64_t pack_tokens = 4096;
  double hours = 0;  // 0: until all steps are done
  bool all_weights = false, recompute = false, resume = false, unconstrained = false;
  node_flags node;
};

void add_model_options(CLI::App& command, train_model_options& o);
// The stages' names are sft, self and contrastive. Writes OUT/adapter (PEFT), OUT/after-STAGE as each stage
// ends, OUT/training.json with its state,
// OUT/progress.jsonl and OUT/curves.svg. errc::invalid_argument for what does not fit together; errc::cancelled after
// Ctrl-C, with all that was learned kept.
expected<int> train_model(train_model_options o, context& c);

}  // namespace cudal1::cli
