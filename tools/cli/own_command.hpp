// Runs commands of this program in processes of their own, as a user would type them.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1::cli {

// "cudal1 run --tasks 'my tasks'", as a shell takes it.
std::string command_text(const std::vector<std::string>& words);

// Its exit code; 128 + n if signal n ended it. It has our input and output, and Ctrl-C is for it alone meanwhile. With
// `output`, its standard output goes to this file. errc::infrastructure if it cannot be started, errc::io_error.
expected<int> run_own_command(const std::vector<std::string>& words, const std::string& output = "");
// The same with its standard output where our standard error goes: it is no part of what this program prints.
expected<int> run_command_for_progress(const std::vector<std::string>& words);

}  // namespace cudal1::cli
