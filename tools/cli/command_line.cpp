#include "tools/cli/command_line.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "sandbox/program/near_miss.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/help_text.hpp"
#include "tools/cli/imported_tasks.hpp"

namespace cudal1::cli {

namespace {

constexpr std::string_view task_kind = "TASK";  // of options and arguments that name tasks

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> all;
  for (const auto* at = &app; at != nullptr; at = at->get_parent())  // a command takes those of its parents, too
    for (const auto* option : at->get_options())
      if (std::ranges::none_of(all, [&](const auto* own) { return own->get_name() == option->get_name(); }))
        all.push_back(option);
  return all;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_lnames())
    names.push_back("--" + name);
  for (const auto& name : option.get_snames())
    names.push_back("-" + name);
  return names;
}

std::string hint_for_option(const std::string& word, const CLI::App& at) {
  std::vector<std::string> known;
  for (const auto* option : options_of(at))
    for (auto& name : names_of(*option))
      known.push_back(std::move(name));
  return did_you_mean(word.substr(0, word.find('=')), known, [](const auto& name) { return std::string_view(name); });
}

// The command that the line names, and its words.
struct named_command {
  const CLI::App* app;
  std::string words;
};

named_command named_by(const CLI::App& app) {
  named_command found{&app, "cudal1"};
  while (!found.app->get_subcommands().empty()) {
    found.app = found.app->get_subcommands().front();
    found.words += " " + found.app->get_name();
  }
  return found;
}

// By its code: an ExtrasError has the command's name in the place of its own.
bool is_a(const CLI::ParseError& e, CLI::ExitCodes kind) {
  return e.get_exit_code() == static_cast<int>(kind);
}

std::string with_place_of_help(const std::string& message, const std::string& path) {
  return fmt::format("{}{} see `{} --help`", message, message.ends_with('?') ? "" : ";", path);
}

// "" for an error that says enough. `left`: the words that have no place on the line.
std::string own_words(const CLI::ParseError& e, const named_command& at, const std::vector<std::string>& left) {
  const bool has_commands = !subcommands_of(*at.app).empty();
  const bool is_extra = is_a(e, CLI::ExitCodes::ExtrasError);
  if (!is_extra && !(is_a(e, CLI::ExitCodes::RequiredError) && has_commands)) return "";
  for (const auto& word : left) {
    if (word.size() > 1 && word.front() == '-')
      return with_place_of_help(fmt::format("there is no option {}{}", word, hint_for_option(word, *at.app)), at.words);
    if (has_commands) return no_such_command(word, *at.app, at.words);
    return with_place_of_help(fmt::format("\"{}\" is one word too many", word), at.words);
  }
  return "";
}

}  // namespace

const CLI::App* find_command(const CLI::App& below, const std::string& name) {
  const auto commands = subcommands_of(below);
  const auto found = std::ranges::find(commands, name, &CLI::App::get_name);
  return found == commands.end() ? nullptr : *found;
}

std::string no_such_command(const std::string& word, const CLI::App& at, const std::string& path) {
  const auto hint = did_you_mean(word, subcommands_of(at),
                                 [](const CLI::App* command) { return std::string_view(command->get_name()); });
  const auto own = path.find(' ');  // without "cudal1"
  const auto whole = own == std::string::npos ? word : path.substr(own + 1) + " " + word;
  return with_place_of_help(fmt::format("there is no command \"{}\"{}", whole, hint), path);
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& e, const context& c) {
  const auto at = named_by(app);
  if (at.app == &app && is_a(e, CLI::ExitCodes::RequiredError) && app.remaining(true).empty()) {
    c.out.print(app.help());
    return exit_code::success;
  }
  const auto own = own_words(e, at, app.remaining(true));
  complain(c, own.empty() ? with_place_of_help(e.what(), at.words) : own);
  return exit_code::usage;
}

namespace {

bool begins_with(std::string_view text, std::string_view beginning) {
  return text.starts_with(beginning);
}

// One line, without the parts behind the first.
std::string short_description(const std::string& text) {
  auto part = text.substr(0, text.find_first_of(";\n"));
  return part;
}

const CLI::Option* option_named(const std::string& word, const CLI::App& at) {
  for (const auto* option : options_of(at))
    for (const auto& name : names_of(*option))
      if (name == word) return option;
  return nullptr;
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

// Where the words before the last one lead.
struct place {
  const CLI::App* app;
  const CLI::Option* option = nullptr;  // whose value comes next
  std::size_t arguments = 0;            // by position, so far
};

place follow_words(const CLI::App& app, const std::vector<std::string>& words) {
  place at{&app};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const auto& word = words[i];
    if (at.option != nullptr) {
      at.option = nullptr;
    } else if (word.size() > 1 && word.front() == '-') {
      const auto* option = option_named(word, *at.app);  // one with "=VALUE" is not found, and complete
      if (option != nullptr && takes_value(*option)) at.option = option;
    } else {
      if (const auto* command = find_command(*at.app, word); command != nullptr)
        at = {command};
      else
        ++at.arguments;
    }
  }
  return at;
}

void add_tasks(const context& c, std::vector<completion>& found) {
  std::set<std::string> names;
  std::error_code problem;
  if (const auto folder = builtin_task_folder(); folder)
    for (std::filesystem::directory_iterator entry(*folder, problem), end; !problem && entry != end;
         entry.increment(problem))
      if (entry->path().extension() == ".json") names.insert(entry->path().stem().string());
  for (const auto& v : imported_versions(c.data))
    names.insert(v.name);
  for (const auto& name : names)
    found.push_back({name, "a task"});
}

void add_values(const CLI::Option& option, const context& c, std::vector<completion>& found) {
  for (const auto& choice : choices_of(option))
    found.push_back({choice, short_description(option.get_description())});
  if (option.get_type_name().starts_with(task_kind)) add_tasks(c, found);
}

void add_argument(const place& at, const context& c, std::vector<completion>& found) {
  std::size_t number = 0;
  for (const auto* option : at.app->get_options())
    if (option->get_positional() && (number++ == at.arguments || option->get_items_expected_max() > 1)) {
      add_values(*option, c, found);
      return;
    }
}

}  // namespace

std::vector<completion> completions(const CLI::App& app, std::vector<std::string> words, const context& c) {
  if (words.empty()) words.emplace_back();
  // A shell that breaks words at "=" gives --policy=e as three.
  if (words.back() == "=") words.back().clear(), words.emplace(words.end() - 1, "=");
  std::erase(words, "=");
  const auto at = follow_words(app, words);
  std::vector<completion> found;
  if (at.option != nullptr) {
    add_values(*at.option, c, found);
  } else if (begins_with(words.back(), "-")) {
    for (const auto* option : options_of(*at.app))
      for (const auto& name : names_of(*option))
        found.push_back({name, short_description(option->get_description())});
  } else {
    if (at.arguments == 0)
      for (const auto* command : subcommands_of(*at.app))
        found.push_back({command->get_name(), short_description(command->get_description())});
    add_argument(at, c, found);
  }
  std::erase_if(found, [&](const completion& f) { return !begins_with(f.word, words.back()); });
  return found;
}

}  // namespace cudal1::cli
