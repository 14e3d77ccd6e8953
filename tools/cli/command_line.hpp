// What CLI11 leaves to us of a command line: errors with a hint, and the words that may come next.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>

#include "tools/cli/command.hpp"

namespace cudal1::cli {

// Prints the overview for a line without a command, else the error and what was probably meant. The exit code.
int report_parse_error(const CLI::App& app, const CLI::ParseError& e, const context& c);

// The command of that name below another; null if there is none.
const CLI::App* find_command(const CLI::App& below, const std::string& name);
// There is none of that name below `at`, whose own name is `path` ("cudal1 tasks").
std::string no_such_command(const std::string& word, const CLI::App& at, const std::string& path);

// As the first word: the rest is a command line whose last word is to be completed. The scripts of `cudal1 completion`
// call it.
inline constexpr std::string_view complete_word = "__complete";

struct completion {
  std::string word, description;
};
// What the last of the words, which may be "", can become: commands, options, an option's choices, names of tasks.
// Empty where it is anything else, such as a file.
std::vector<completion> completions(const CLI::App& app, std::vector<std::string> words, const context& c);

}  // namespace cudal1::cli
