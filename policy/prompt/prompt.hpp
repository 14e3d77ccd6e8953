// What a policy is shown when it is asked for variants: the task, the device, and earlier variants with their scores.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"
#include "policy/graph/schedule.hpp"
#include "sandbox/program/task.hpp"
#include "store/store.hpp"

namespace cudal1 {

// An earlier variant with its verdict.
struct exemplar {
  std::optional<schedule> plan;  // none: it was written as a program
  stored_exemplar known;         // the variant, its verdict, and how alike its task is (1: this task)

  const std::string& id() const { return known.variant.id; }
  outcome result() const { return known.result.result; }
  double score() const { return known.result.score; }  // 0 unless correct
};

// Of a stored variant. errc::parse_error if its schedule cannot be read.
expected<exemplar> exemplar_of(stored_exemplar known);

// Which earlier variants a policy wants to see.
struct exemplar_wish {
  // The best of the experiment so far, in place of a sample of the whole store.
  int64_t best_of_experiment = 0;
  // Drawn from the whole store (store::sample_exemplars); task, class of environments and seed are set for each prompt.
  exemplar_query sample{.task = "", .environment_class = "", .correct = 0};
};

// A schedule of the whole task that was put together from what is known of its parts (policy/search/assembly.hpp).
struct assembled_schedule {
  schedule plan;
  std::string program;      // id
  std::string name;         // how the task was cut
  double predicted_us = 0;  // sum of the times of the measured parts
  double own_us = 0;        // the same with the parts' own programs
  // Parts, a step that is in none counted as one; those that were measured; and the moves of their schedules that are
  // not legal in the whole.
  int64_t parts = 0, measured = 0, left_out = 0;
};

struct prompt {
  std::shared_ptr<const task> what;
  const lowering_target* target = nullptr;
  environment where;                          // of the device that measures
  int64_t tensor_bytes = 0;                   // that a variant's tensors may take there at a time; 0: unknown
  std::vector<exemplar> exemplars;            // correct ones, best first
  std::vector<exemplar> failed;               // newest first
  std::vector<judged_file> files;             // by others, faster on the same model of device; best first
  std::vector<assembled_schedule> assembled;  // to be proposed before anything else, in this order
  // A failed variant of the policy's own that it is asked to repair, after the ones that it repaired in turn, oldest
  // first. Empty: a new variant is wanted.
  std::vector<exemplar> repair;
  // Whether a variant, by its id, was proposed before, also one that failed or is under way: to propose it again is in
  // vain. The exemplars are some of them. Empty if none was.
  std::function<bool(const std::string& id)> is_tried;
  bool resumed = false;        // it was asked before in this experiment, and is asked again after a restart
  std::string document;        // the prompt as it was stored, to be asked again; "" for a new one
  std::string model;           // that should answer, where a policy has several; "" if it has none
  int64_t island = no_island;  // that the exemplars were drawn from
  uint64_t seed = 0;           // all randomness of a proposal comes from here
};

// Shows it what was drawn. Errors of exemplar_of.
expected<void> show(prompt& p, exemplar_sample drawn);
// Shows it the best Python file by others, if the store has one of its task that is right, faster than eager mode on
// the device's model, and short enough to be read.
expected<void> show_files(prompt& p, store& s);

}  // namespace cudal1
