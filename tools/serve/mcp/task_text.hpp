// Tasks and moves as an agent reads them: short, and without what only programs need.
#pragma once

#include <string>

#include "config/base/json.hpp"

namespace cudal1::serve::mcp {

// Half a page: inputs, weights and outputs with their draws and facts, the program's steps, and the least work of a
// call. `task`: an element of the answer of describe_task.
std::string description_of(const json& task);
// Of the same, the members that a program may use: without the origin, and with inputs and weights once.
json short_document(const json& task);

// The moves that a task allows now, with their parameters and values: from the `document` of a prompt in the form
// `schedule`.
std::string legal_moves(const json& document);

}  // namespace cudal1::serve::mcp
