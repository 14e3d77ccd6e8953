#include "tools/cli/node_child.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/child_process.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/node_process.hpp"

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
  // A session of its own: Ctrl-C in this terminal does not reach the node, and it may outlive this process.
  CUDAL1_TRY(child.pid_, child_start()
                             .reads_nothing()
                             .appends_to(STDOUT_FILENO, child.log_)
                             .has(STDERR_FILENO, STDOUT_FILENO)
                             .own_session()
                             .run(program, words, program + " with its log in " + child.log_));
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
