#include "sandbox/device/worker_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/child_process.hpp"
#include "config/base/pipe.hpp"
#include "config/installation.hpp"
#include "sandbox/isolation/zygote.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::seconds start_limit{60}, spawn_limit{10};
constexpr std::size_t max_exit_notices = 256;

// A worker inherits only the variables that locate its libraries. OpenMP's threads must not spin: on a machine with few
// cores they would slow down the timed calls.
std::vector<std::string> worker_environment(const worker_settings& settings) {
  // Functions are bound when a process begins: while kernels run, its libraries' memory may be closed (memory_lock).
  std::vector<std::string> environment{"LD_BIND_NOW=1",
                                       "OMP_WAIT_POLICY=passive",
                                       "GOMP_SPINCOUNT=0",
                                       "OMP_DYNAMIC=false",
                                       "MALLOC_ARENA_MAX=1",
                                       "LC_ALL=C",
                                       fmt::format("OMP_NUM_THREADS={}", settings.threads),
                                       fmt::format("MKL_NUM_THREADS={}", settings.threads)};
  for (const char* name : {"PATH", "LD_LIBRARY_PATH"})
    if (const char* value = std::getenv(name)) environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

}  // namespace

expected<std::string> find_worker(const std::string& wanted, const std::string& program) {
  namespace fs = std::filesystem;
  std::error_code problem;
  fs::path path = wanted;
  if (wanted.empty()) path = fs::read_symlink("/proc/self/exe", problem);
  if (wanted.empty() || program != "cudal1-worker") path.replace_filename(program);
  if (::access(path.c_str(), X_OK) != 0)
    return fail(errc::not_found, "{} is not an executable: {} must be in the folder of this program", path.string(),
                program);
  return path.string();
}

expected<pid_t> start_worker(const std::string& worker, const std::string& role, const std::string& settings,
                             const std::vector<std::string>& environment, int socket) {
  // A separate process group, so that Ctrl-C at the terminal reaches only the node. Signal handlers and masks are not
  // inherited.
  return child_start()
      .reads_nothing()
      .drops(STDOUT_FILENO)
      .has(zygote_socket, socket)
      .closes_from(zygote_socket + 1)
      .default_signals()
      .own_group()
      .environment(environment)
      .run(worker, {worker, role, settings});
}

namespace {

constexpr int loader_failed = 127;  // exit code if the loader does not find a library
constexpr int ending_ms = 2000;

// The exit code of a child that is ending; -1 if it does not end or was killed by a signal.
int exit_code_of(pid_t pid) {
  const unique_fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{process.get(), POLLIN, 0};
  siginfo_t how = {};
  if (!process || ::poll(&ended, 1, ending_ms) <= 0 || ::waitid(P_PID, pid, &how, WEXITED | WNOWAIT) != 0) return -1;
  return how.si_code == CLD_EXITED ? how.si_status : -1;
}

// The loader's message about a missing library: the first line on stderr of another start of the program.
std::string loader_message(const std::string& worker) {
  auto ends = make_pipe();
  if (!ends) return "";
  auto& [reading, writing] = *ends;
  const auto pid = child_start().has(STDERR_FILENO, writing.get()).run(worker, {worker});
  writing.reset();
  if (!pid) return "";
  std::array<char, 1024> text{};
  const auto got = ::read(reading.get(), text.data(), text.size());
  ::waitpid(*pid, nullptr, 0);
  const std::string_view all(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  return std::string(all.substr(0, all.find('\n')));
}

}  // namespace

error not_started(const std::string& worker, pid_t pid, error e) {
  if (exit_code_of(pid) != loader_failed) return e;
  return {errc::not_found, fmt::format("a library is missing: {}; {}", loader_message(worker),
                                       libtorch_advice(std::filesystem::path(worker).parent_path()))};
}

void kill_process(int pidfd) {
  ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
}

expected<zygote_link> zygote_link::start(const std::string& worker, const worker_settings& settings,
                                         const std::vector<std::string>& environment) {
  CUDAL1_TRY(auto ends, socket_pair());
  zygote_link link;
  std::vector<std::string> variables = worker_environment(settings);
  variables.insert(variables.end(), environment.begin(), environment.end());
  CUDAL1_TRY(link.pid_, start_worker(worker, "zygote", to_text(settings), variables, ends.second.get()));
  ends.second.reset();
  link.socket_ = std::move(ends.first);
  auto first = receive_frame(link.socket_.get(), deadline_in(start_limit));
  if (!first)
    return fail_in("the zygote of cudal1-worker did not start", not_started(worker, link.pid_, first.error()));
  auto report = record_of<zygote_report>(*first);
  if (!report) return fail_in("the zygote of cudal1-worker did not start", report.error());
  link.report_ = std::move(*report);
  return link;
}

zygote_link& zygote_link::operator=(zygote_link&& other) noexcept {
  if (this == &other) return *this;
  end();
  pid_ = std::exchange(other.pid_, 0);
  socket_ = std::move(other.socket_);
  report_ = std::move(other.report_);
  ended_ = std::move(other.ended_);
  return *this;
}

zygote_link::~zygote_link() {
  end();
}

void zygote_link::end() {
  const bool running = static_cast<bool>(socket_);
  socket_.reset();
  if (pid_ <= 0) return;
  // It ends when its socket closes; SIGKILL in case it hangs. Its children end with it.
  if (running) ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

expected<frame> zygote_link::next(deadline until) {
  auto f = receive_frame(socket_.get(), until);
  if (!f) return fail(errc::infrastructure, "the zygote: {}", f.error().message);
  return f;
}

expected<void> zygote_link::take_notice() {
  CUDAL1_TRY(const frame f, next(deadline_in(spawn_limit)));
  if (f.type != frame_type::exited)
    return fail(errc::infrastructure, "the zygote sent an unexpected {} frame", enum_name(f.type));
  CUDAL1_TRY(const auto notice, record_of<exit_notice>(f));
  if (ended_.size() >= max_exit_notices) ended_.clear();
  ended_[notice.pid] = notice;
  return {};
}

expected<child_process> zygote_link::spawn(const std::string& role, std::span<const int> descriptors) {
  const deadline until = deadline_in(spawn_limit);
  if (const auto sent = send_record(socket_.get(), frame_type::spawn, spawn_request{role}, until, descriptors); !sent)
    return fail(errc::infrastructure, "the zygote: {}", sent.error().message);
  for (;;) {
    CUDAL1_TRY(frame f, next(until));
    if (f.type == frame_type::exited) {
      CUDAL1_TRY(const auto notice, record_of<exit_notice>(f));
      ended_[notice.pid] = notice;
      continue;
    }
    CUDAL1_TRY(const auto reply, record_of<spawn_reply>(f));
    if (f.descriptors.size() != 1) return fail(errc::infrastructure, "the zygote sent no descriptor of its child");
    ended_.erase(reply.pid);  // of an earlier process with that id
    return child_process{reply.pid, std::move(f.descriptors[0])};
  }
}

expected<exit_notice> zygote_link::wait_exit(int pid, std::chrono::milliseconds limit) {
  const deadline until = deadline_in(limit);
  while (!ended_.contains(pid)) {
    auto f = receive_frame(socket_.get(), until);
    if (!f) return tl::unexpected<error>(f.error());
    CUDAL1_TRY(const auto notice, record_of<exit_notice>(*f));
    ended_[notice.pid] = notice;
  }
  return ended_[pid];
}

}  // namespace cudal1
