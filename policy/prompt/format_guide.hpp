// The words of a prompt that depend on no task: how an answer is written, the program format, schedules, and what is
// required of every answer.
#pragma once

#include <string>

#include "policy/prompt/prompt_document.hpp"

namespace cudal1 {

// Who reads this and what is asked, in a paragraph.
std::string introduction(answer_form form);
// What is asked for, in a word: "program", "schedule", "kernel".
const char* word_for(answer_form form);
// The three sections of an answer, and what its code block holds.
std::string answer_guide(answer_form form);
// The format of programs, of its JSON head and of its steps.
std::string format_guide();
// How schedules are written.
std::string schedule_guide();
// What every answer must do and may not do, with reasons. The gates' numbers are those of sandbox/verify.
std::string requirements_text(const device_guide& guide, const prompt_task& what, answer_form form);

}  // namespace cudal1
