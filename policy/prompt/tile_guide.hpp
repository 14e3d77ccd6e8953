// The words of a prompt about answers of the form `tile`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/prompt/prompt_document.hpp"
#include "policy/prompt/tile_frame.hpp"

namespace cudal1 {

// The three sections of an answer, and what its code block holds.
std::string tile_answer_guide();
// How code of the form is written: frames, launches, names.
std::string tile_guide();
// What the tile vocabulary's table (sandbox/program/dialect) says, a sentence or more each; `parts`: of these alone.
std::vector<std::string> tile_vocabulary(const std::vector<std::string_view>& parts = {});
// The parts that the document's frames, or kernels without one, need most.
std::vector<std::string_view> parts_for(const prompt_document& d);
// A frame as a prompt shows it: its kernel without a body, and what else may follow its kind.
std::string frame_text(const tile_frame& frame);
// The frames of the task.
std::string frames_text(const prompt_document& d);

// Code for a task that no task folder has, in the words of the form.
struct tile_example {
  std::string_view kind;            // "rows", "product", "launch"
  std::string_view task;            // what is computed
  std::string_view inputs, output;  // "p float32[512, 1024]; w float32[8]"
  std::string_view code;
};
const std::vector<tile_example>& tile_examples();
// One for each frame of the task, at most two; one with a launch where it has none.
std::string tile_examples_text(const prompt_document& d);

}  // namespace cudal1
