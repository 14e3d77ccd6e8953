// Linear layers that read one value as one layer: the queries, keys and values of attention, the gates of a recurrent
// cell, both halves of a gated layer. Their weights are concatenated to one, which set-up makes, and their results are
// slices of its result.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// The steps that may be joined, those of one input and orientation of weights together, in the order of their first
// ones. They are aten::linear, mm, matmul and addmm with weights as B, which may be transposed, and what reads their
// results can read slices in their place, without a copy that was not there before.
std::vector<std::vector<int>> joinable_layers(const checked_program& p);

struct joined_task {
  std::shared_ptr<const task> with;
  std::string certificate;
  std::vector<std::vector<int>> layers;  // the steps that became one, for each of the layers
};
// The task with these layers joined where they read one input. A step more for each joined layer: it is where the first
// of its layers was, and each of these is a slice. errc::invalid_argument with the reason where a step is no such layer
// or is joined with none.
expected<joined_task> with_joined_layers(const task& t, std::span<const int> steps);

}  // namespace cudal1
