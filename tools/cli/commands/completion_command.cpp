// cudal1 completion: what a shell needs to complete command lines of cudal1; cudal1 help.
#include <fmt/format.h>

#include "tools/cli/command.hpp"
#include "tools/cli/command_line.hpp"

namespace cudal1::cli {

namespace {

// Each asks the program itself, which knows its commands, options and tasks. Without an answer a file may come next.
constexpr const char* bash_script = R"(_cudal1() {
  local word
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    COMPREPLY+=("$word")
  done < <("${COMP_WORDS[0]}" COMPLETE "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _cudal1 cudal1
)";

constexpr const char* zsh_script = R"(#compdef cudal1
_cudal1() {
  local line
  local -a candidates
  for line in "${(@f)$("${words[1]}" COMPLETE "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n "$line" ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( $#candidates )); then _describe -t words 'cudal1' candidates; else _files; fi
}
compdef _cudal1 cudal1
)";

constexpr const char* fish_script = R"(function __cudal1_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  $words[1] COMPLETE $words[2..] "$current" 2>/dev/null
end
complete -c cudal1 -a '(__cudal1_complete)'
)";

void add_completion(CLI::App& app, context& c) {
  auto shell = std::make_shared<std::string>();
  auto* sub = app.add_subcommand("completion", "a script that completes cudal1's command lines in bash, zsh or fish");
  sub->add_option("shell", *shell, "whose script is printed")
      ->type_name("SHELL")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  sub->footer(footer(
      "  source <(cudal1 completion bash)                                    for this shell; in ~/.bashrc for all\n"
      "  source <(cudal1 completion zsh)                                     likewise, behind compinit\n"
      "  cudal1 completion fish > ~/.config/fish/completions/cudal1.fish",
      "  0    printed\n"
      "  2    there is no script for that shell"));
  sub->callback([shell, &c] {
    const auto* script = *shell == "bash" ? bash_script : *shell == "zsh" ? zsh_script : fish_script;
    std::string text = script;
    constexpr std::string_view placeholder = "COMPLETE";
    text.replace(text.find(placeholder), placeholder.size(), complete_word);
    c.out.print(text);
  });
}

// Prints the text that --help prints.
void add_help(CLI::App& app, context& c) {
  auto words = std::make_shared<std::vector<std::string>>();
  auto* sub = app.add_subcommand("help", "the overview, or the help of a command");
  sub->add_option("command", *words, "as in `cudal1 help tasks import`")->type_name("COMMAND");
  sub->footer(footer("  cudal1 help\n  cudal1 help run", "  0    printed\n  2    there is no such command"));
  sub->callback([words, &app, &c] {
    const CLI::App* at = &app;
    std::string name = "cudal1";
    for (const auto& word : *words) {
      const auto* next = find_command(*at, word);
      if (next == nullptr) {
        complain(c, no_such_command(word, *at, name));
        c.exit = exit_code::usage;
        return;
      }
      at = next;
      name += " " + word;
    }
    // CLI11's help() of a command gives that of the one on the line: this one's.
    c.out.print(at->get_formatter()->make_help(at, name, CLI::AppFormatMode::Normal));
  });
}

const command_registration registered_completion(130, add_completion);
const command_registration registered_help(131, add_help);

}  // namespace

}  // namespace cudal1::cli
