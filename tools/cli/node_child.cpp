#include "tools/cli/node_child.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cli/arguments.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/node_process.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves its declaration to us

namespace cudal1::cli {

namespace {

// The last lines of the log, from offset `from` on.
std::string end_of_log(const std::string& path, std::streamoff from) {
  std::ifstream log(path, std::ios::binary);
  log.seekg(from);
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  auto lines = split_lines(text);
  if (lines.size() > 8) lines.erase(lines.begin(), lines.end() - 8);
  std::string out;
  for (const auto& line : lines)
    out += "\n  " + line;
  return out;
}

}  // namespace

expected<node_child> node_child::spawn(const std::string& data, const std::vector<std::string>& flags) {
  CUDAL1_TRY(const std::string program, find_sibling("cudal1-node"));
  node_child child;
  child.log_ = data + "/node.log";
  std::error_code none;
  const auto size = std::filesystem::file_size(child.log_, none);
  child.log_start_ = none ? 0 : static_cast<std::streamoff>(size);

  std::vector<std::string> words = {program, "--data", data};
  words.insert(words.end(), flags.begin(), flags.end());
  const std::vector<char*> arguments = arguments_of(words);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, child.log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A session of its own: Ctrl-C in this terminal does not reach the node, and it may outlive this process.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const int problem = ::posix_spawn(&child.pid_, program.c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (problem != 0)
    return fail(errc::infrastructure, "cannot start {} with its log in {}: {}", program, child.log_,
                std::strerror(problem));
  return child;
}

std::optional<int> node_child::ended() {
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  return status;
}

std::string node_child::log_tail() const {
  return end_of_log(log_, log_start_);
}

}  // namespace cudal1::cli
