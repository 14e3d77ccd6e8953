#include "sandbox/cpu/compiler/compiler_process.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/deadline.hpp"
#include "config/base/pipe.hpp"
#include "config/base/unique_fd.hpp"
#include "sandbox/isolation/confine.hpp"

namespace cudal1 {
namespace {

// Everything that the child needs between fork and exec, made before the fork: the parent may have threads, so the
// child may neither allocate nor lock.
struct prepared_child {
  std::vector<char*> arguments, environment;
  std::vector<std::string> environment_texts;
  confinement limits;
  bool allow_weak = false, confined = true;
  int input = -1, output = -1, report = -1;
};

// What the child reports if it cannot start the compiler.
struct child_report {
  int error_number;
  char step[60];
};

[[noreturn]] void say(int report_fd, const char* step, int error_number) noexcept {
  child_report report{error_number, {}};
  std::strncpy(report.step, step, sizeof report.step - 1);
  [[maybe_unused]] const auto written = ::write(report_fd, &report, sizeof report);
  ::_exit(127);
}

[[noreturn]] void become(const prepared_child& child) noexcept {
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  if (::dup2(child.input, 0) < 0 || ::dup2(child.output, 1) < 0 || ::dup2(child.output, 2) < 0)
    say(child.report, "dup2", errno);
  if (::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) != 0) say(child.report, "close_range", errno);
  const confinement_result result = child.confined ? child.limits.enter() : confinement_result{};
  if (const auto* failed = result.failed(); failed != nullptr && !child.allow_weak)
    say(child.report, failed->name, failed->error_number);
  ::execve(child.arguments[0], child.arguments.data(), child.environment.data());
  say(child.report, "execve", errno);
}

expected<unique_fd> memory_file(const std::string& content) {
  unique_fd file(::memfd_create("cudal1-source", MFD_CLOEXEC));
  if (!file) return fail(errc::infrastructure, "memfd_create: {}", std::strerror(errno));
  for (std::size_t done = 0; done < content.size();) {
    const auto n = ::write(file.get(), content.data() + done, content.size() - done);
    if (n < 0) return fail(errc::infrastructure, "write: {}", std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return fail(errc::infrastructure, "lseek: {}", std::strerror(errno));
  return file;
}

// Reads until the output ends, the deadline passes or `stop_fd` is readable, and drops what exceeds the limit.
void read_output(int fd, deadline until, int stop_fd, int64_t limit, child_result& result) {
  auto& output = result.output;
  char buffer[4096];
  while (true) {
    const int left = milliseconds_until(until);
    result.timed_out = left == 0;
    if (result.timed_out) return;
    pollfd p[] = {{fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};  // one below 0 is left out
    const int ready = ::poll(p, 2, left);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    result.stopped = p[1].revents != 0;
    if (result.stopped) return;
    const auto n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    const auto room = std::max<int64_t>(limit - static_cast<int64_t>(output.size()), 0);
    output.append(buffer, static_cast<std::size_t>(std::min<int64_t>(n, room)));
  }
}

// Waits for the child to end, then kills the processes that it started: they are in its process group, which exists
// until the last of them has ended.
int reap(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::kill(-child, SIGKILL);
  return status;
}

expected<prepared_child> prepare(const child_options& options) {
  confinement_options wanted;
  wanted.role = confined_role::compiler;
  wanted.limits.address_space_bytes = options.memory_limit_bytes;
  wanted.limits.file_bytes = options.file_limit_bytes;
  wanted.limits.cpu_seconds =
      static_cast<int64_t>(options.cpu_time_limit_s > 0 ? options.cpu_time_limit_s : options.time_limit_s) + 1;
  wanted.limits.open_files = options.open_files;
  wanted.readable = options.readable;
  wanted.writable = options.writable;
  wanted.writable.push_back(options.folder);
  wanted.expected_parent = ::getpid();
  CUDAL1_TRY(auto limits, confinement::prepare(wanted));
  prepared_child child{{}, {}, {}, std::move(limits), options.allow_weak_confinement, options.confined, -1, -1, -1};
  child.environment_texts = options.environment;
  child.environment_texts.push_back("LC_ALL=C");
  child.environment_texts.push_back("TMPDIR=" + options.folder);
  for (const auto& argument : options.command)
    child.arguments.push_back(const_cast<char*>(argument.c_str()));
  for (const auto& text : child.environment_texts)
    child.environment.push_back(const_cast<char*>(text.c_str()));
  child.arguments.push_back(nullptr);
  child.environment.push_back(nullptr);
  return child;
}

}  // namespace

expected<child_result> run_child(const child_options& options) {
  CUDAL1_TRY(auto child, prepare(options));
  CUDAL1_TRY(const auto input, memory_file(options.input));
  CUDAL1_TRY(auto output, make_pipe());
  CUDAL1_TRY(auto report, make_pipe());
  child.input = input.get();
  child.output = output.writer.get();
  child.report = report.writer.get();
  const auto until =
      deadline_in(std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(options.time_limit_s)));
  const pid_t pid = ::fork();
  if (pid < 0) return fail(errc::infrastructure, "fork: {}", std::strerror(errno));
  if (pid == 0) become(child);
  ::setpgid(pid, pid);  // in both processes, because either may run first
  output.writer.reset();
  report.writer.reset();

  child_result result;
  read_output(output.reader.get(), until, options.stop_fd, options.output_limit_bytes, result);
  if (result.timed_out || result.stopped) ::kill(-pid, SIGKILL);
  const int status = reap(pid);
  child_report said{};
  if (::read(report.reader.get(), &said, sizeof said) == static_cast<ssize_t>(sizeof said))
    return fail(errc::infrastructure, "cannot run {} confined: {}: {}", options.command[0], said.step,
                std::strerror(said.error_number));
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

expected<private_folder> private_folder::create() {
  std::error_code problem;
  auto base = std::filesystem::temp_directory_path(problem);
  if (problem) base = "/tmp";
  std::string path = (base / "cudal1-compile-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr)
    return fail(errc::infrastructure, "cannot make a folder {}: {}", path, std::strerror(errno));
  return private_folder(std::move(path));
}

private_folder::~private_folder() {
  if (path_.empty()) return;
  std::error_code ignored;  // the system cleans its temporary folder
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace cudal1
