// From the text of a language model's answer to a variant. It forgives Markdown: headings of any level, fences of any
// kind and language, text around them, a head fenced apart from its source, comments and trailing commas in the head,
// CRLF, thoughts, a missing analysis. It is strict about results: exactly one program or schedule, complete, legal, and
// of the task's inputs, weights and outputs. What is wrong is said in words that the model can act on: the next prompt
// shows them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/moves/lowering.hpp"
#include "policy/prompt/prompt_document.hpp"

namespace cudal1 {

struct answer_request {
  const task* what = nullptr;
  const lowering_target* target = nullptr;  // to which a schedule is lowered
  answer_form form = answer_form::program;
  std::string finish_reason;  // of the completion; "length": it was cut off at its limit of tokens
};

struct answer {
  std::string analysis, design;  // "" if there is no such section
  // The code as it was found: head, ---, source, or the schedule, or the text of the form `tile`; "" if there is none.
  // What a variant that breaks a rule is stored with.
  std::string code;
  std::optional<schedule> plan;            // of the form `schedule`
  std::optional<checked_program> program;  // legal and of the task; the canonical text is print_program(program->text)
  std::vector<std::string> explanation;    // of a lowered schedule
  // Why there is no program. parse_error: no answer of the asked form; otherwise the reason why the program or schedule
  // is not legal.
  std::optional<error> problem;
};

answer read_answer(std::string_view text, const answer_request& request);

}  // namespace cudal1
