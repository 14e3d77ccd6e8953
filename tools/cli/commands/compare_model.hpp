// cudal1 compare --model --plan: the arms of a plan, trained, asked and judged, with what that has shown.
#pragma once

#include <string>

#include "tools/cli/command.hpp"
#include "tools/cli/node_process.hpp"

namespace cudal1::cli {

struct compare_model_options {
  std::string model, plan, out, device = "cpu", measured_on, precision = "auto", time;
  int64_t evaluators = 0;  // requests to the node at a time; 0: 1 on cpu, 4 on a GPU
  bool report = false, json = false;
  node_flags node;
};

void add_plan_options(CLI::App& sub, compare_model_options& o);
// All is kept in OUT, which goes on where it was ended, also by a kill -9 or on another machine: records.jsonl has
// answers and verdicts, pool.json the variants that prompts show, training/ the adapters. OUT/data and the data folders
// beside it are of the nodes that measured; the command's own data folder is not used.
//
// errc::invalid_argument where OUT was begun with another plan or model. With `report` nothing is done: what is there
// is shown.
expected<int> compare_model(const compare_model_options& o, context& c);

// Shows what the folder of a comparison has.
expected<int> show_comparison(const std::string& folder, bool as_json, context& c);

}  // namespace cudal1::cli
