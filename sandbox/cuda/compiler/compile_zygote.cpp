#include "sandbox/cuda/compiler/compile_zygote.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <nvrtc.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/stopwatch.hpp"
#include "sandbox/cuda/compiler/compile_messages.hpp"
#include "sandbox/cuda/compiler/header_folders.hpp"
#include "sandbox/cuda/compiler/nvrtc_call.hpp"
#include "sandbox/isolation/confine.hpp"
#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/machine_info.hpp"
#include "sandbox/isolation/zygote.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::seconds answer_limit{10};
constexpr int child_open_files = 64;

constexpr const char* warm_source =
    "extern \"C\" __global__ void warm(const float* a, float* b, int n) {\n"
    "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) b[i] = a[i] * 2.0f;\n"
    "}\n";

// "13.0, V13.0.88" of "// Cuda compilation tools, release 13.0, V13.0.88": nvrtcVersion() does not include the build.
std::string version_in(std::string_view ptx) {
  constexpr std::string_view sign = "release ";
  const auto at = ptx.find(sign);
  if (at == std::string_view::npos) return "";
  const auto begin = at + sign.size();
  return std::string(ptx.substr(begin, ptx.find('\n', begin) - begin));
}

void write_all(int fd, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const auto n = ::write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(exit_broken);  // the reader is gone
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void answer(int fd, const nvrtc_result& result) {
  compile_answer head;
  head.status = result.status;
  head.cubin = result.cubin.size();
  head.ptx = result.ptx.size();
  head.log = result.log.size();
  write_all(fd, &head, sizeof head);
  for (const auto* part : {&result.cubin, &result.ptx, &result.log})
    write_all(fd, part->data(), part->size());
}

class compile_zygote {
 public:
  compile_zygote(compile_settings settings, header_folders folders)
      : settings_(std::move(settings)), folders_(std::move(folders)), inherited_bytes_(private_memory_bytes()) {}

  expected<compile_zygote_report> start();
  int serve();

 private:
  // For the children of one list of header sets: their confinement and their search path.
  struct prepared {
    confinement limits;
    std::vector<std::string> include;
  };
  expected<void> confine_itself() const;
  expected<const prepared*> prepare(const std::vector<std::string>& headers);
  expected<void> spawn(frame& f);
  [[noreturn]] void become_child(const compile_request& request, const prepared& how, int answer_fd) const;
  void reap();

  compile_settings settings_;
  header_folders folders_;
  int64_t inherited_bytes_;
  std::map<std::vector<std::string>, prepared> prepared_;
  std::map<pid_t, unique_fd> endings_;
  unique_fd children_;
  sigset_t original_mask_{};
};

// Called before NVRTC runs for the first time. If there is a GPU, NVRTC would initialise the driver, which does not
// work in forked children. Without access to /dev/nvidia* it works as on a machine without a GPU.
expected<void> compile_zygote::confine_itself() const {
  confinement_options wanted;
  wanted.role = confined_role::compiler;
  wanted.readable = {folders_.libraries()};
  for (const auto& set : folders_.installed()) {
    CUDAL1_TRY(const auto access, folders_.access({set}));
    wanted.readable.insert(wanted.readable.end(), access.readable.begin(), access.readable.end());
  }
  wanted.parent_death_signal = false;  // the thread that started it may end; the zygote ends with its socket
  CUDAL1_TRY(const auto limits, confinement::prepare(wanted));
  confinement_result result;
  limits.restrict_resources(result);
  if (const auto* failed = result.failed(); failed != nullptr && !settings_.allow_weak_confinement)
    return fail(errc::infrastructure, "the compilers' zygote: {}: {}", failed->name,
                std::strerror(failed->error_number));
  return {};
}

expected<compile_zygote_report> compile_zygote::start() {
  const stopwatch took;
  CUDAL1_CHECK(confine_itself());
  const auto warm = compile_with_nvrtc(warm_source, settings_.architecture, {}, settings_.log_limit_bytes);
  if (warm.status == compile_status::bad_option)
    return fail(errc::unsupported, "NVRTC does not know the architecture {}: {}", settings_.architecture, warm.log);
  if (warm.status != compile_status::compiled)
    return fail(errc::infrastructure, "NVRTC cannot compile an empty kernel for {}: {}", settings_.architecture,
                warm.log);
  inherited_bytes_ = std::max(inherited_bytes_, private_memory_bytes());
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &mask, &original_mask_);
  children_.reset(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!children_) return fail(errc::infrastructure, "signalfd: {}", std::strerror(errno));
  compile_zygote_report report;
  report.version = "NVRTC " + version_in(warm.ptx);
  report.headers = folders_.installed();
  report.warm_ms = took.ms();
  return report;
}

expected<const compile_zygote::prepared*> compile_zygote::prepare(const std::vector<std::string>& headers) {
  const auto known = prepared_.find(headers);
  if (known != prepared_.end()) return &known->second;
  CUDAL1_TRY(auto access, folders_.access(headers));
  confinement_options wanted;
  wanted.role = confined_role::compiler;
  wanted.system_folders = false;
  wanted.readable = access.readable;
  wanted.limits.cpu_seconds = static_cast<int64_t>(settings_.time_limit_s) + 1;
  wanted.limits.data_bytes = inherited_bytes_ + settings_.memory_limit_bytes;
  wanted.limits.file_bytes = 1;
  wanted.limits.open_files = child_open_files;
  wanted.expected_parent = ::getpid();
  CUDAL1_TRY(auto limits, confinement::prepare(wanted));
  return &prepared_.emplace(headers, prepared{std::move(limits), std::move(access.include)}).first->second;
}

// Closes all descriptors but the answer's, which becomes 3.
void compile_zygote::become_child(const compile_request& request, const prepared& how, int answer_fd) const {
  ::sigprocmask(SIG_SETMASK, &original_mask_, nullptr);
  ::prctl(PR_SET_NAME, "cudal1-nvrtc", 0, 0, 0);
  constexpr int only = 3;
  // The zygote's socket is 3, so this closes it.
  if (answer_fd != only && ::dup2(answer_fd, only) < 0) ::_exit(exit_broken);
  const auto limited = how.limits.enter();
  if (const auto* failed = limited.failed(); failed != nullptr && !settings_.allow_weak_confinement) {
    nvrtc_result result;
    result.status = compile_status::unconfined;
    result.log = fmt::format("{}: {}", failed->name, std::strerror(failed->error_number));
    answer(only, result);
    ::_exit(exit_confinement);
  }
  ::syscall(SYS_close_range, only + 1, ~0U, 0);
  answer(only, compile_with_nvrtc(request.source, settings_.architecture, how.include, settings_.log_limit_bytes));
  ::_exit(exit_orderly);
}

expected<void> compile_zygote::spawn(frame& f) {
  CUDAL1_TRY(const auto request, record_of<compile_request>(f));
  if (f.descriptors.size() != 2)
    return fail(errc::corrupt, "a request for a compilation has {} descriptors", f.descriptors.size());
  CUDAL1_TRY(const prepared* how, prepare(request.headers));
  const pid_t child = ::fork();
  if (child < 0) return fail(errc::infrastructure, "fork: {}", std::strerror(errno));
  if (child == 0) become_child(request, *how, f.descriptors[0].get());
  endings_[child] = std::move(f.descriptors[1]);
  const unique_fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (!pidfd) return fail(errc::infrastructure, "pidfd_open: {}", std::strerror(errno));
  const int sent = pidfd.get();
  return send_record(zygote_socket, frame_type::spawned, spawn_reply{child}, deadline_in(answer_limit), {&sent, 1});
}

void compile_zygote::reap() {
  signalfd_siginfo ignored;
  while (::read(children_.get(), &ignored, sizeof ignored) > 0) {
  }
  int status = 0;
  rusage used{};
  for (pid_t child; (child = ::wait4(-1, &status, WNOHANG, &used)) > 0;) {
    compile_ending ending;
    if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
    if (WIFEXITED(status)) ending.code = WEXITSTATUS(status);
    ending.peak_kib = used.ru_maxrss;
    // Does not block: the pipe is empty. A missing reader does not matter.
    if (const auto pipe = endings_.find(child); pipe != endings_.end()) {
      [[maybe_unused]] const auto written = ::write(pipe->second.get(), &ending, sizeof ending);
      endings_.erase(pipe);
    }
  }
}

int compile_zygote::serve() {
  for (;;) {
    pollfd entries[] = {{zygote_socket, POLLIN, 0}, {children_.get(), POLLIN, 0}};
    if (::poll(entries, 2, -1) < 0 && errno != EINTR) return exit_broken;
    if (entries[1].revents != 0) reap();
    if (entries[0].revents == 0) continue;
    auto f = receive_frame(zygote_socket, deadline_in(answer_limit));
    if (!f) return f.error().code == errc::not_found ? exit_orderly : exit_broken;
    if (f->type != frame_type::spawn) return exit_broken;
    if (const auto spawned = spawn(*f);
        !spawned && !send_failure(zygote_socket, spawned.error(), deadline_in(answer_limit)))
      return exit_broken;
  }
}

expected<compile_zygote> make_zygote(const std::string& text) {
  CUDAL1_TRY(auto settings, from_text<compile_settings>(text));
  CUDAL1_TRY(auto folders, header_folders::find());
  return compile_zygote(std::move(settings), std::move(folders));
}

}  // namespace

int run_compile_zygote(const std::string& settings) {
  ::prctl(PR_SET_NAME, "cudal1-compile", 0, 0, 0);
  ::signal(SIGPIPE, SIG_IGN);
  auto zygote = make_zygote(settings);
  if (!zygote) {
    (void)send_failure(zygote_socket, zygote.error(), deadline_in(answer_limit));
    return exit_broken;
  }
  const auto report = zygote->start();
  if (!report) {
    (void)send_failure(zygote_socket, report.error(), deadline_in(answer_limit));
    return exit_broken;
  }
  if (!send_record(zygote_socket, frame_type::report, *report, deadline_in(answer_limit))) return exit_broken;
  return zygote->serve();
}

}  // namespace cudal1
