#include "tools/baseline/baseline_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/deadline.hpp"
#include "config/base/describe.hpp"
#include "tools/cli/arguments.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves its declaration to us

namespace cudal1::cli {

namespace {

using clock = std::chrono::steady_clock;
constexpr std::string_view taking = "take the request";  // the step before the first that the process reports

// One line of its standard output: the union of the members of all events.
struct event_line {
  std::string event, torch, problem, doing;
  std::vector<std::string> kinds;
  double limit_s = 0;
};
BOOST_DESCRIBE_STRUCT(event_line, (), (event, torch, problem, doing, kinds, limit_s))

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

// ---- the process ----------------------------------------------------------------------------------------------------

expected<void> baseline_process::start() {
  int ends[2];
  // A socket for both directions: writing to an ended process is then an error instead of SIGPIPE.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(errc::infrastructure, "cannot create a socket: {}", std::strerror(errno));
  unique_fd ours(ends[0]), its(ends[1]);
  std::vector<std::string> words = {options_.python, "-u", options_.script, "--device", options_.place.device};
  const std::vector<char*> arguments = arguments_of(words);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, its.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, its.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, options_.place.log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A process group of its own: it is killed with its compilers, and Ctrl-C in this terminal does not reach it.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int problem = ::posix_spawn(&pid_, options_.python.c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (problem != 0) {
    pid_ = -1;
    return fail(errc::infrastructure, "cannot start {} with its log in {}: {}", options_.python, options_.place.log,
                std::strerror(problem));
  }
  link_ = std::move(ours);
  bytes_.clear();
  its.reset();
  auto line = receive(clock::now() + options_.start_limit);
  if (!line) {
    end();
    return tl::unexpected<error>(std::move(line).error());
  }
  const auto said = *line ? from_text<event_line>(**line) : expected<event_line>(event_line{});
  if (said && said->event == "ready") {
    torch_ = said->torch;
    return {};
  }
  const auto why = said && said->event == "broken" ? said->problem : how_it_ended();
  end();
  return fail(errc::infrastructure, "the measuring process did not start: {}; its log is {}", why, options_.place.log);
}

void baseline_process::end() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  link_.reset();
}

// Called after the end of its output.
std::string baseline_process::how_it_ended() {
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

expected<void> baseline_process::send(const std::string& line) {
  std::string_view rest = line;
  while (!rest.empty()) {
    const auto sent = ::send(link_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0)
      return fail(errc::infrastructure, "cannot send a request to the measuring process: {}", std::strerror(errno));
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

expected<std::optional<std::string>> baseline_process::receive(clock::time_point until) {
  for (;;) {
    if (const auto end_of_line = bytes_.find('\n'); end_of_line != std::string::npos) {
      std::string line = bytes_.substr(0, end_of_line);
      bytes_.erase(0, end_of_line + 1);
      return std::optional<std::string>(std::move(line));
    }
    const int left = milliseconds_until(until);
    if (left == 0) return fail(errc::timeout, "the measuring process did not reply in time");
    pollfd waiting[2] = {{link_.get(), POLLIN, 0}, {options_.place.wake_fd, POLLIN, 0}};
    const int ready = ::poll(waiting, 2, left);
    if (ready < 0 && errno != EINTR)
      return fail(errc::io_error, "cannot wait for the measuring process: {}", std::strerror(errno));
    if (ready <= 0) continue;
    if (waiting[1].revents != 0) return fail(errc::cancelled, "interrupted");
    char buffer[1 << 16];
    const auto got = ::recv(link_.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::optional<std::string>();
    bytes_.append(buffer, static_cast<std::size_t>(got));
  }
}

// ---- a request ------------------------------------------------------------------------------------------------------

expected<std::optional<baseline_process::interruption>> baseline_process::exchange(const baseline_request& r,
                                                                                   std::vector<kind_times>& answers) {
  interruption at{"", r.kinds, std::string(taking)};
  auto until = clock::now() + milliseconds(r.prepare_seconds) + options_.grace;
  double limit_s = r.prepare_seconds;
  if (!send(to_text(r) + "\n")) {
    at.problem = how_it_ended();
    return std::optional(at);
  }
  for (;;) {
    auto line = receive(until);
    if (!line && line.error().code == errc::timeout) {
      at.problem = fmt::format("it did not end within {:.0f} s", limit_s);
      return std::optional(at);
    }
    if (!line) return tl::unexpected<error>(std::move(line).error());
    if (!*line) {
      at.problem = how_it_ended();
      return std::optional(at);
    }
    CUDAL1_TRY(const event_line said, from_text<event_line>(**line));
    if (said.event == "done") return std::optional<interruption>();
    if (said.event == "broken") {
      at.problem = said.problem;
      return std::optional(at);
    }
    if (said.event == "begin") {
      at.kinds = said.kinds;
      at.doing = said.doing;
      limit_s = said.limit_s;
      until = clock::now() + milliseconds(limit_s) + options_.grace;
    } else if (said.event == "kind") {
      CUDAL1_TRY(kind_times answer, from_text<kind_times>(**line));
      if (contains(r.kinds, answer.kind)) answers.push_back(std::move(answer));
    }
  }
}

expected<std::vector<kind_times>> baseline_process::measure(const baseline_request& r) {
  std::vector<kind_times> answers;
  baseline_request next = r;  // with the kinds that are left
  bool asked_again = false;
  while (!next.kinds.empty()) {
    if (pid_ <= 0) CUDAL1_CHECK(start());
    const std::size_t before = answers.size();
    auto exchanged = exchange(next, answers);
    if (!exchanged) {
      end();
      return tl::unexpected<error>(std::move(exchanged).error());
    }
    const auto left_over = [&](const std::string& kind) {
      return std::none_of(answers.begin() + static_cast<std::ptrdiff_t>(before), answers.end(),
                          [&](const kind_times& a) { return a.kind == kind; });
    };
    std::vector<std::string> left;
    std::copy_if(next.kinds.begin(), next.kinds.end(), std::back_inserter(left), left_over);
    const auto& stopped = *exchanged;
    if (stopped) end();
    if (left.empty()) break;
    // The process had ended before this request: its kinds are not the cause.
    if (stopped && stopped->doing == taking && !std::exchange(asked_again, true)) {
      next.kinds = std::move(left);
      continue;
    }
    const auto was_measuring = [&](const std::string& kind) { return !stopped || contains(stopped->kinds, kind); };
    std::vector<std::string> blamed, others;
    for (const auto& kind : left)
      (was_measuring(kind) ? blamed : others).push_back(kind);
    for (const auto& kind : blamed)
      answers.push_back({.kind = kind,
                         .problem = stopped ? fmt::format("failed to {}: {}", stopped->doing, stopped->problem)
                                            : std::string("the measuring process returned no result"),
                         .call_us = {},
                         .device_us = {},
                         .check = {},
                         .notes = {}});
    // No progress and no kind that caused it: repeating the request would loop forever.
    if (blamed.empty() && answers.size() == before)
      return fail(errc::infrastructure, "the measuring process does not work: {}; its log is {}",
                  stopped ? stopped->problem : "it returned no result", options_.place.log);
    next.kinds = std::move(others);
  }
  return answers;
}

}  // namespace cudal1::cli
