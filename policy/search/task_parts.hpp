// Parts of a task: the steps that would become one kernel, or one library call, as a task of its own. A part is
// searched and measured like any task; its id depends on its operators and on the shapes, strides, types and draws at
// its border, not on the task that it comes from, so that equal layers, tasks and experiments share what is known of
// it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policy/graph/part_family.hpp"
#include "policy/graph/schedule.hpp"
#include "policy/moves/lowering.hpp"

namespace cudal1 {

struct task_part {
  task what;
  std::vector<int> steps;   // step k of the part is this step of the whole task; ascending
  std::vector<int> covers;  // of these, the ones that it stands for: the others are views that lead to its operands
};

// One way to cut a task into parts.
struct partition {
  std::string name;  // "largest kernels", ...
  std::vector<task_part> parts;
  // Other steps that are in no part, with the reason: a border of integers, whose values are not known, for example.
  // Views, and what proofs have dropped or replaced, are not listed.
  std::map<int, std::string> apart;
};

// The partitions of a task that differ, after moves of preparation and all proofs have been applied.
struct task_partitions {
  schedule proofs;            // with these moves before them
  std::vector<int> replaced;  // steps that proofs compute in another way: in no part
  std::vector<partition> ways;
};
task_partitions partitions_of(const task& t, const lowering_target& target, const std::vector<move>& preparation = {});

// Those of the task with the biases of convolutions as steps where that is legal. Of a task with convolutions of
// several channels those with the channels last in memory as well, of one with layers of one input those with these
// joined.
std::vector<task_partitions> partitions_by_layout(const task& t, const lowering_target& target);
// The steps that are convolutions of several channels once these moves of preparation have been applied, in order: the
// same ones for each layout.
std::vector<int> convolutions_after(const task& t, const lowering_target& target, const std::vector<move>& preparation);

// These steps of the graph as a task of its own. Inputs and weights of the whole task keep their draws, but not the
// weights' values unless they are fixed; deviations of weights are rounded to powers of two. Weights that set-up
// computes are drawn with the deviation that those weights give them (draw_of_setup_value). What other steps produce is
// drawn as it was recorded when the task was imported; without a record, and in other kinds of draws than the declared
// one, uniformly from the range that is proved of it, or where that has no end from the standard normal distribution,
// folded into it. A record is no part of the part's id: the layers that share it are drawn as the first one.
// errc::unsupported where that is not possible.
expected<task_part> part_of(const graph& g, std::vector<int> steps);

// Each task of the parts once, in order. They point into `p`.
std::vector<const task*> distinct_tasks(const task_partitions& p);
std::vector<const task*> distinct_tasks(task_partitions&&) = delete;

}  // namespace cudal1
