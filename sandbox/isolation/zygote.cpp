// The zygote. It has one thread and does not initialise devices.
#include "sandbox/isolation/zygote.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "config/base/stopwatch.hpp"
#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/library_constants.hpp"
#include "sandbox/isolation/self_test.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::seconds answer_limit{10};
constexpr int first_handed_down = 3;

class zygote {
 public:
  zygote(const worker_settings& settings, const zygote_roles& roles) : settings_(settings), roles_(roles) {}
  // Sends the report, or the error.
  bool start();
  // Processes requests until the session closes its end of the socket.
  int serve();

 private:
  expected<zygote_report> prepare();
  expected<void> spawn(frame& f);
  [[noreturn]] void become(const std::string& role, const std::vector<unique_fd>& descriptors, pid_t parent);
  expected<void> reap();

  worker_settings settings_;
  const zygote_roles& roles_;
  unique_fd socket_, children_;
  sigset_t original_mask_{};
};

// Moves a descriptor above the numbers that a child uses, so that become() does not overwrite it.
expected<unique_fd> move_high(int fd) {
  unique_fd high(::fcntl(fd, F_DUPFD_CLOEXEC, 32));
  if (!high) return fail(errc::infrastructure, "fcntl: {}", std::strerror(errno));
  ::close(fd);
  return high;
}

bool zygote::start() {
  auto high = move_high(zygote_socket);
  if (!high) return false;
  socket_ = std::move(*high);
  const auto report = prepare();
  if (report) return send_record(socket_.get(), frame_type::report, *report, deadline_in(answer_limit)).has_value();
  (void)send_failure(socket_.get(), report.error(), deadline_in(answer_limit));
  return false;
}

expected<zygote_report> zygote::prepare() {
  const stopwatch took;
  zygote_report report;
  report.confinement = enter_namespaces();
  roles_.warm_up();
  if (roles_.keeps_constants) CUDAL1_CHECK(keep_constants_over_forks());
  report.warm_ms = took.ms();
  CUDAL1_TRY(const auto tested, test_confinement());
  report.confinement.insert(report.confinement.end(), tested.begin(), tested.end());
  report.libraries = roles_.libraries;
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &mask, &original_mask_);
  children_.reset(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!children_) return fail(errc::infrastructure, "signalfd: {}", std::strerror(errno));
  return report;
}

// Runs in the child. Only its own descriptors stay open, as 3, 4, ...
void zygote::become(const std::string& role, const std::vector<unique_fd>& descriptors, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::sigprocmask(SIG_SETMASK, &original_mask_, nullptr);
  std::vector<int> high;
  for (const auto& d : descriptors)
    high.push_back(::fcntl(d.get(), F_DUPFD_CLOEXEC, 64));
  for (std::size_t i = 0; i < high.size(); ++i)
    ::dup2(high[i], first_handed_down + static_cast<int>(i));
  const int first_closed = first_handed_down + static_cast<int>(high.size());
  ::syscall(SYS_close_range, static_cast<unsigned>(first_closed), ~0U, 0);
  const bool is_referee = role == "referee";
  ::prctl(PR_SET_NAME, is_referee ? "cudal1-referee" : "cudal1-runner", 0, 0, 0);
  if (is_referee) ::_exit(roles_.referee(settings_, first_handed_down, parent));
  if (roles_.keeps_constants) read_kept_constants();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int standard = 0; standard < 3; ++standard)
    ::dup2(null, standard);
  ::close(null);
  std::vector<int> handed_down;
  for (std::size_t i = 0; i < high.size(); ++i)
    handed_down.push_back(first_handed_down + static_cast<int>(i));
  ::_exit(roles_.runner(settings_, handed_down.data(), parent));
}

expected<void> zygote::spawn(frame& f) {
  CUDAL1_TRY(const auto request, record_of<spawn_request>(f));
  const std::size_t wanted = request.role == "referee" ? 1 : request.role == "runner" ? roles_.runner_descriptors : 0;
  if (wanted == 0 || f.descriptors.size() != wanted)
    return fail(errc::corrupt, "spawn: role \"{}\" with {} descriptors", request.role, f.descriptors.size());
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return fail(errc::infrastructure, "fork: {}", std::strerror(errno));
  if (child == 0) become(request.role, f.descriptors, parent);
  const unique_fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (!pidfd) return fail(errc::infrastructure, "pidfd_open: {}", std::strerror(errno));
  const int sent = pidfd.get();
  return send_record(socket_.get(), frame_type::spawned, spawn_reply{child}, deadline_in(answer_limit), {&sent, 1});
}

expected<void> zygote::reap() {
  signalfd_siginfo ignored;
  while (::read(children_.get(), &ignored, sizeof ignored) > 0) {
  }
  int status = 0;
  for (pid_t child; (child = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    exit_notice notice{.pid = child};
    if (WIFSIGNALED(status)) notice.signal = WTERMSIG(status);
    if (WIFEXITED(status)) notice.code = WEXITSTATUS(status);
    CUDAL1_CHECK(send_record(socket_.get(), frame_type::exited, notice, deadline_in(answer_limit)));
  }
  return {};
}

int zygote::serve() {
  for (;;) {
    pollfd entries[] = {{socket_.get(), POLLIN, 0}, {children_.get(), POLLIN, 0}};
    if (::poll(entries, 2, -1) < 0 && errno != EINTR) return exit_broken;
    if (entries[1].revents != 0 && !reap()) return exit_broken;
    if (entries[0].revents == 0) continue;
    auto f = receive_frame(socket_.get(), deadline_in(answer_limit));
    if (!f) return f.error().code == errc::not_found ? exit_orderly : exit_broken;
    if (f->type != frame_type::spawn) return exit_broken;
    if (const auto spawned = spawn(*f);
        !spawned && !send_failure(socket_.get(), spawned.error(), deadline_in(answer_limit)))
      return exit_broken;
  }
}

}  // namespace

int run_zygote(const worker_settings& settings, const zygote_roles& roles) {
  ::prctl(PR_SET_NAME, "cudal1-zygote", 0, 0, 0);
  zygote self(settings, roles);
  return self.start() ? self.serve() : exit_broken;
}

}  // namespace cudal1
