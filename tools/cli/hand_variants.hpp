// Variants that a person or a program wrote as moves.
#pragma once

#include <string>
#include <string_view>

#include "sandbox/program/task.hpp"

namespace cudal1::cli {

// The text of the program that the moves make of the task's own. errc::parse_error or invalid_argument, which say what
// is wrong with them; errc::unsupported where there is no such target; an error where a proof does not hold.
expected<std::string> lower_schedule_text(const std::string& moves, const task& what, std::string_view target);

}  // namespace cudal1::cli
