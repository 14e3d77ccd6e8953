// Finds the one program or schedule in the code blocks of an answer.
#pragma once

#include <string>
#include <vector>

#include "policy/prompt/markdown.hpp"
#include "policy/prompt/prompt_document.hpp"

namespace cudal1 {

// From the sections that are for code; where none of them has any, from all others. A program's head is made strict
// JSON (plain_json) and joined with its source where the two have blocks of their own. errc::parse_error, with what to
// write, if there is no program, more than one, or half of one. Of the form `tile`: its text, or a program.
expected<std::string> find_code(const std::vector<markdown_section>& code, const std::vector<markdown_section>& others,
                                answer_form form);

}  // namespace cudal1
