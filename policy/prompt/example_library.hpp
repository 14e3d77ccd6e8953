// The library of hand-written programs (config/programs) as examples for prompts: with the features by which the most
// alike ones are chosen. Loaded once, then shared by all prompts of a profile.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sandbox/program/program_library.hpp"
#include "sandbox/program/task.hpp"
#include "store/task_similarity.hpp"

namespace cudal1 {

struct library_entry {
  library_program program;
  std::string task, family;
  task_features features;  // of its task
  std::string tile_text;   // the same as code of the form `tile`; "" if that cannot say it
};

using example_library = std::vector<library_entry>;

// Of a profile ("cpu", "cuda"). Errors: those of load_program_library and load_tasks.
expected<std::shared_ptr<const example_library>> load_example_library(const std::string& profile);

// The entries whose tasks are most like `t`, at most two, the most alike first: never of the task itself, whose answer
// they would be, and of two tasks. Of a task that has several, the shortest one that calls no operator. Where the first
// consists of kernels alone the second calls an operator, and the other way round, if there is one.
std::vector<const library_entry*> choose_examples(const task& t, const example_library& library);

}  // namespace cudal1
