#include "tools/cli/own_command.hpp"

#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "config/base/child_process.hpp"
#include "tools/cli/child_status.hpp"

namespace cudal1::cli {

namespace {

bool is_plain(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  return !word.empty() && word.find_first_not_of(plain) == std::string::npos;
}

std::string quoted(const std::string& word) {
  if (is_plain(word)) return word;
  std::string out = "'";
  for (const char c : word)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Ctrl-C reaches the whole group of processes: it is the child's to end.
class interrupts_left_to_child {
 public:
  interrupts_left_to_child() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &before_);
  }
  ~interrupts_left_to_child() { ::sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

}  // namespace

std::string command_text(const std::vector<std::string>& words) {
  std::string text = "cudal1";
  for (const auto& word : words)
    text += " " + quoted(word);
  return text;
}

namespace {

// What a child's standard output is.
struct child_output {
  std::string file;       // "": as below
  bool is_error = false;  // our standard error, else our standard output
};

expected<int> run(const std::vector<std::string>& words, const child_output& output) {
  std::vector<std::string> all{"cudal1"};
  all.insert(all.end(), words.begin(), words.end());
  child_start start;
  if (!output.file.empty()) start.replaces(STDOUT_FILENO, output.file);
  if (output.is_error) start.has(STDOUT_FILENO, STDERR_FILENO);
  start.default_signal(SIGINT);
  const interrupts_left_to_child guard;
  CUDAL1_TRY(const pid_t child, start.run("/proc/self/exe", all, "`" + command_text(words) + "`"));
  return shell_code_at_end(child);
}

}  // namespace

expected<int> run_own_command(const std::vector<std::string>& words, const std::string& output) {
  return run(words, {output});
}

expected<int> run_command_for_progress(const std::vector<std::string>& words) {
  return run(words, {"", true});
}

}  // namespace cudal1::cli
