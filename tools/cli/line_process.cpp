#include "tools/cli/line_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/child_process.hpp"
#include "config/base/deadline.hpp"

namespace cudal1::cli {

expected<void> line_process::start() {
  int ends[2];
  // A socket for both directions: writing to an ended process is then an error instead of SIGPIPE.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(errc::infrastructure, "cannot create a socket: {}", std::strerror(errno));
  unique_fd ours(ends[0]), its(ends[1]);
  child_start start;
  start.has(STDIN_FILENO, its.get()).has(STDOUT_FILENO, its.get()).own_group();
  if (!options_.log.empty()) start.appends_to(STDERR_FILENO, options_.log);
  const auto& program = options_.words.front();
  auto started =
      start.run(program, options_.words, program + (options_.log.empty() ? "" : " with its log in " + options_.log));
  pid_ = started.value_or(-1);
  if (!started) return tl::unexpected(std::move(started).error());
  link_ = std::move(ours);
  bytes_.clear();
  return {};
}

void line_process::end() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  link_.reset();
}

std::string line_process::how_it_ended() {
  int status = 0;
  for (int i = 0; i < 100; ++i) {
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      ::kill(-pid_, SIGKILL);  // its children
      pid_ = -1;
      link_.reset();
      return WIFSIGNALED(status) ? fmt::format("it was killed by signal {}", WTERMSIG(status))
                                 : fmt::format("it ended with exit code {}", WEXITSTATUS(status));
    }
    ::poll(nullptr, 0, 50);
  }
  return "it closed its output";
}

expected<void> line_process::send(const std::string& line) {
  const std::string text = line + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto sent = ::send(link_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0)
      return fail(errc::infrastructure, "cannot send a request to {}: {}", options_.name, std::strerror(errno));
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

expected<std::optional<std::string>> line_process::receive(std::chrono::steady_clock::time_point until, int wake_fd) {
  for (;;) {
    if (const auto end_of_line = bytes_.find('\n'); end_of_line != std::string::npos) {
      std::string line = bytes_.substr(0, end_of_line);
      bytes_.erase(0, end_of_line + 1);
      return std::optional<std::string>(std::move(line));
    }
    const int left = milliseconds_until(until);
    if (left == 0) return fail(errc::timeout, "{} did not reply in time", options_.name);
    pollfd waiting[2] = {{link_.get(), POLLIN, 0}, {wake_fd, POLLIN, 0}};
    const int ready = ::poll(waiting, 2, left);
    if (ready < 0 && errno != EINTR)
      return fail(errc::io_error, "cannot wait for {}: {}", options_.name, std::strerror(errno));
    if (ready <= 0) continue;
    if (waiting[1].revents != 0) return fail(errc::cancelled, "interrupted");
    char buffer[1 << 16];
    const auto got = ::recv(link_.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::optional<std::string>();
    bytes_.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace cudal1::cli
