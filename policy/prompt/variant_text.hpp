// Earlier variants as a prompt's text shows them.
#pragma once

#include <string>

#include "policy/prompt/prompt_document.hpp"

namespace cudal1 {

// At most so many bytes, and "..." where it was longer; UTF-8 stays whole.
std::string shortened(const std::string& text, std::size_t most);

// "### Variant 1 of 2 (3f9a1c2b4d5e): 1.83x ...", what was measured, and the program or the schedule.
std::string exemplar_text(const shown_variant& v, std::size_t number, std::size_t count, answer_form form);
// The same of a failed one: the gate with its numbers, the compiler's lines.
std::string failed_text(const shown_variant& v, answer_form form);
// The last section of a prompt that asks to repair the last of `rounds`: earlier ones in a line each.
std::string repair_text(const std::vector<shown_variant>& rounds, answer_form form);

// The text in a fence that it cannot close.
std::string fenced(const std::string& text);

}  // namespace cudal1
