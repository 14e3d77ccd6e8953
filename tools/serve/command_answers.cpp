#include "tools/serve/command_answers.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "config/base/child_process.hpp"
#include "config/base/deadline.hpp"
#include "config/base/pipe.hpp"
#include "tools/cli/child_status.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/node_process.hpp"

namespace cudal1::serve {

namespace {

constexpr std::chrono::minutes time_limit{2};
constexpr std::size_t most_output = std::size_t{256} << 20;

struct finished_command {
  int code = 0;
  std::string out, err;
};

expected<pid_t> spawn(const std::vector<std::string>& words, int out, int err) {
  return child_start().reads_nothing().has(STDOUT_FILENO, out).has(STDERR_FILENO, err).run(words.front(), words);
}

// Reads both until their ends. False: it takes too long, or prints too much.
bool read_both(const unique_fd& out, const unique_fd& err, finished_command& f) {
  const auto end = std::chrono::steady_clock::now() + time_limit;
  std::array<pollfd, 2> waiting = {{{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}}};
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    const int ready = ::poll(waiting.data(), waiting.size(), milliseconds_until(end));
    if (ready == 0 || f.out.size() + f.err.size() > most_output) return false;
    for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
      std::array<char, 1 << 16> buffer{};
      const auto got = ::read(waiting[i].fd, buffer.data(), buffer.size());
      if (got > 0)
        (i == 0 ? f.out : f.err).append(buffer.data(), static_cast<std::size_t>(got));
      else if (got == 0 || errno != EINTR)
        waiting[i].fd = -1;  // poll() ignores it
    }
  }
  return true;
}

expected<finished_command> run(const std::vector<std::string>& words) {
  CUDAL1_TRY(auto out, make_pipe());
  CUDAL1_TRY(auto err, make_pipe());
  const std::string name = words.size() > 1 ? words[1] : "";
  CUDAL1_TRY(const pid_t pid, spawn(words, out.writer.get(), err.writer.get()));
  out.writer.reset();
  err.writer.reset();
  finished_command f;
  const bool in_time = read_both(out.reader, err.reader, f);
  if (!in_time) ::kill(pid, SIGKILL);
  f.code = cli::shell_code_at_end(pid);
  if (!in_time) return fail(errc::timeout, "`cudal1 {}` took over {} minutes", name, time_limit.count());
  return f;
}

// "cudal1: there is no ..." -> "there is no ...".
std::string message_of(std::string text) {
  constexpr std::string_view prefix = "cudal1: ";
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  while (text.ends_with('\n'))
    text.pop_back();
  return text;
}

}  // namespace

expected<std::string> command_answers::text(const std::vector<std::string>& given, errc on_usage) const {
  CUDAL1_TRY(const std::string program, cli::find_sibling("cudal1"));
  std::vector<std::string> words = {program};
  words.insert(words.end(), given.begin(), given.end());
  words.insert(words.end(), {"--quiet", "--data", data_});
  CUDAL1_TRY(auto f, run(words));
  namespace code = cli::exit_code;
  if (f.code == code::success || (f.code == code::negative && !f.out.empty())) return std::move(f.out);
  const auto message = message_of(std::move(f.err));
  return fail(f.code == code::usage ? on_usage : errc::infrastructure, "{}",
              message.empty() ? "the command gave nothing" : message);
}

expected<json> command_answers::document(const std::vector<std::string>& words, errc on_usage) const {
  CUDAL1_TRY(const std::string printed, text(words, on_usage));
  return json::parse(printed);
}

}  // namespace cudal1::serve
