// The third part of a prompt: examples of the format, the operators that steps may call, and the legal moves.
#pragma once

#include "policy/prompt/prompt_document.hpp"

namespace cudal1 {

void add_examples(const task& t, const example_library& library, prompt_document& d);
void add_operators(const task& t, prompt_document& d);
// Of the form `tile`: the task's frames, and programs of the library in that form, of similar tasks.
void add_frames(const task& t, prompt_document& d);
void add_tile_examples(const task& t, const example_library& library, prompt_document& d);
void add_moves(const task& t, const lowering_target& target, prompt_document& d);

}  // namespace cudal1
