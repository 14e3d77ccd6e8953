#include "sandbox/cuda/compiler/compile_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/pipe.hpp"
#include "sandbox/device/worker_process.hpp"
#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::seconds start_limit{60}, spawn_limit{10}, reap_limit{5};

// Only what the worker needs to find its libraries. No GPU: see compile_zygote.cpp.
std::vector<std::string> zygote_environment() {
  std::vector<std::string> environment{"LC_ALL=C", "MALLOC_ARENA_MAX=1", "OMP_NUM_THREADS=1", "CUDA_VISIBLE_DEVICES="};
  for (const char* name : {"PATH", "LD_LIBRARY_PATH"})
    if (const char* value = std::getenv(name)) environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

// Reads the available bytes. False at the end, or if there are more than an answer may have.
bool take(int fd, std::string& into) {
  std::array<char, 65536> buffer;
  const auto n = ::read(fd, buffer.data(), buffer.size());
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  into.append(buffer.data(), static_cast<std::size_t>(n));
  return n > 0 && into.size() <= max_answer_bytes;
}

// The child is not trusted: its lengths must add up to the bytes received.
expected<compile_output> decode(const std::string& bytes) {
  compile_answer head;
  if (bytes.size() < sizeof head) return fail(errc::corrupt, "a compiler's answer has {} bytes", bytes.size());
  std::memcpy(&head, bytes.data(), sizeof head);
  const uint64_t body = bytes.size() - sizeof head;
  const bool fits = head.cubin <= body && head.ptx <= body - head.cubin && head.log == body - head.cubin - head.ptx;
  if (head.magic != compile_answer::magic_value || head.status > compile_status::unconfined || !fits)
    return fail(errc::corrupt, "a compiler's answer is malformed: {} bytes of {}", head.cubin, body);
  compile_output result;
  result.status = head.status;
  std::size_t at = sizeof head;
  for (auto [part, size] :
       {std::pair{&result.cubin, head.cubin}, std::pair{&result.ptx, head.ptx}, std::pair{&result.log, head.log}}) {
    part->assign(bytes, at, size);
    at += size;
  }
  return result;
}

}  // namespace

struct compile_processes::child {
  unique_fd answer, ending, pidfd;
};

expected<std::unique_ptr<compile_processes>> compile_processes::start(const std::string& worker,
                                                                      compile_settings settings) {
  CUDAL1_TRY(auto path, find_worker(worker));
  std::unique_ptr<compile_processes> made(new compile_processes(std::move(path), std::move(settings)));
  const std::lock_guard hold(made->lock_);
  CUDAL1_CHECK(made->start_zygote());
  return made;
}

compile_processes::~compile_processes() {
  end_zygote();
}

int compile_processes::zygote() const {
  const std::lock_guard hold(lock_);
  return pid_;
}

expected<void> compile_processes::start_zygote() {
  end_zygote();
  CUDAL1_TRY(auto ends, socket_pair());
  CUDAL1_TRY(pid_, start_worker(worker_, "compile-cuda", to_text(settings_), zygote_environment(), ends.second.get()));
  ends.second.reset();
  socket_ = std::move(ends.first);
  const std::string what = "the compilers' zygote did not start";
  auto first = receive_frame(socket_.get(), deadline_in(start_limit));
  if (!first) return fail_in(what, not_started(worker_, pid_, {errc::infrastructure, first.error().message}));
  auto report = record_of<compile_zygote_report>(*first);
  if (!report) return fail_in(what, report.error());
  if (report_.version.empty())
    report_ = std::move(*report);  // set only once, because other threads read it without the lock
  return {};
}

// Its children end with it (confinement).
void compile_processes::end_zygote() {
  socket_.reset();
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

expected<compile_processes::child> compile_processes::spawn_once(const compile_request& request) {
  CUDAL1_TRY(auto answer, make_pipe());
  CUDAL1_TRY(auto ending, make_pipe());
  const deadline until = deadline_in(spawn_limit);
  const std::array<int, 2> sent{answer.writer.get(), ending.writer.get()};
  CUDAL1_CHECK(send_record(socket_.get(), frame_type::spawn, request, until, sent));
  CUDAL1_TRY(frame f, receive_frame(socket_.get(), until));
  CUDAL1_CHECK(record_of<spawn_reply>(f));
  if (f.descriptors.size() != 1) return fail(errc::corrupt, "the compilers' zygote sent no descriptor of its child");
  return child{std::move(answer.reader), std::move(ending.reader), std::move(f.descriptors[0])};
}

expected<compile_processes::child> compile_processes::spawn(const compile_request& request) {
  const std::lock_guard hold(lock_);
  if (socket_) {
    auto first = spawn_once(request);
    if (first || first.error().code == errc::unsupported) return first;
  }
  CUDAL1_CHECK(start_zygote());
  auto second = spawn_once(request);
  if (!second && second.error().code != errc::unsupported)
    return fail(errc::infrastructure, "the compilers' zygote: {}", second.error().message);
  return second;
}

tl::unexpected<error> compile_processes::ended_badly(const compile_ending& ending) const {
  if (ending.signal == SIGXCPU || ending.signal == SIGKILL)
    return fail(errc::timeout, "the compiler did not finish within {} s", settings_.time_limit_s);
  // A failed allocation can end a compiler in many ways, and the peak of resident memory does not include it.
  if (ending.peak_kib * 1024 > settings_.memory_limit_bytes / 3)
    return fail(errc::timeout, "the compiler needed more than {} MiB of memory", settings_.memory_limit_bytes >> 20);
  if (ending.signal != 0)
    return fail(errc::compile_failed, "the compiler crashed on this program ({})", ::strsignal(ending.signal));
  return fail(errc::compile_failed, "the compiler gave up on this program (exit code {})", ending.code);
}

expected<compile_output> compile_processes::finish(child& c, double limit_s) const {
  const deadline until = std::chrono::steady_clock::now() +
                         std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(limit_s));
  std::string bytes;
  bool reading = true;
  while (reading) {
    pollfd entry{c.answer.get(), POLLIN, 0};
    const int left = milliseconds_until(until);
    const int ready = left > 0 ? ::poll(&entry, 1, left) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return fail(errc::timeout, "the compiler did not finish within {} s and was stopped", limit_s);
    reading = take(c.answer.get(), bytes);
  }
  if (auto output = decode(bytes)) return output;
  if (bytes.size() > max_answer_bytes)
    return fail(errc::refused, "the compiler produced more than {} MiB from this program", max_answer_bytes >> 20);
  // The child closed its end without an answer, so it is about to end.
  compile_ending ending;
  pollfd entry{c.ending.get(), POLLIN, 0};
  const auto limit = std::chrono::milliseconds(reap_limit).count();
  if (::poll(&entry, 1, static_cast<int>(limit)) <= 0 ||
      ::read(c.ending.get(), &ending, sizeof ending) != static_cast<ssize_t>(sizeof ending))
    return fail(errc::infrastructure, "a compiler ended without an answer, and its zygote does not report why");
  return ended_badly(ending);
}

expected<compile_output> compile_processes::run(const compile_request& request, double seconds) {
  CUDAL1_TRY(auto started, spawn(request));
  auto output = finish(started, std::min(seconds, settings_.time_limit_s));
  kill_process(started.pidfd.get());
  return output;
}

}  // namespace cudal1
