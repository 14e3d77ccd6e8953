#include "sandbox/device/process_session.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <poll.h>
#include <sys/eventfd.h>

#include "config/base/blob.hpp"
#include "config/base/hash.hpp"
#include "config/base/stopwatch.hpp"
#include "sandbox/isolation/fault_text.hpp"
#include "sandbox/isolation/shared_memory.hpp"

namespace cudal1 {
namespace {

// Added to the time of a request's calls: for draws, expected outputs, and a machine under load.
constexpr std::chrono::seconds referee_allowance{180};
constexpr std::chrono::seconds exit_allowance{3};

expected<unique_fd> object_file(const compiled_code& code) {
  return code.object.empty() ? expected<unique_fd>(unique_fd()) : make_sealed_file("cudal1-object", code.object);
}

variant_text text_of(const checked_program& variant, const compiled_code& code) {
  const fingerprint object = fingerprint_of(code.object.data(), code.object.size(), 0);
  return {print_program(variant.text), fmt::format("{}-{:016x}{:016x}", variant.id, object.high, object.low)};
}

void add(timing_report& all, const timing_report& one) {
  if (one.problem) all.problem = one.problem;
  all.samples.insert(all.samples.end(), one.samples.begin(), one.samples.end());
  all.outputs_fingerprinted += one.outputs_fingerprinted;
  all.outputs_compared += one.outputs_compared;
  if (all.inconsistency.empty()) all.inconsistency = one.inconsistency;
  all.dropped_samples += one.dropped_samples;
  for (const auto& note : one.notes)
    if (std::ranges::count(all.notes, note) == 0) all.notes.push_back(note);
  all.flush_ms += one.flush_ms;
  all.load_ms += one.load_ms;
  all.read_gb_per_s = std::max(all.read_gb_per_s, one.read_gb_per_s);
  all.reference_parts = std::max(all.reference_parts, one.reference_parts);
}

}  // namespace

std::chrono::milliseconds time_of_calls(double call_limit_ms, std::size_t calls) {
  return std::chrono::milliseconds(static_cast<int64_t>(call_limit_ms * static_cast<double>(calls + 6)));
}

expected<unique_fd> make_cancel_event() {
  unique_fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fail(errc::infrastructure, "eventfd: {}", std::strerror(errno));
  return event;
}

// ---- processes ------------------------------------------------------------------------------------------------------

expected<void> process_session::start(const std::function<environment(const std::string&)>& describe) {
  const stopwatch took;
  CUDAL1_CHECK(start_processes());
  report_.where = describe(zygote_->report().libraries);
  report_.confinement = zygote_->report().confinement;
  if (const auto missing = missing_confinement(report_.confinement);
      !missing.empty() && !settings_.allow_weak_confinement)
    return fail(
        errc::refused,
        "this system lacks a confinement that untrusted code needs: {}; set allow_weak_confinement = true to run "
        "without it",
        missing);
  report_.start_ms = took.ms();
  return {};
}

expected<void> process_session::start_processes() {
  zygote_.reset();
  auto started = zygote_link::start(worker_, settings_, environment_);
  if (!started) return tl::unexpected<error>(started.error());
  zygote_.emplace(std::move(*started));
  {
    const std::lock_guard lock(pids_mutex_);
    zygote_pid_ = zygote_->pid();
  }
  return start_referee();
}

expected<void> process_session::start_referee() {
  task_is_open_ = false;
  referee_socket_.reset();
  if (referee_.pidfd) kill_process(referee_.pidfd.get());
  CUDAL1_TRY(auto ends, socket_pair());
  const int theirs = ends.second.get();
  CUDAL1_TRY(referee_, zygote_->spawn("referee", {&theirs, 1}));
  referee_socket_ = std::move(ends.first);
  const std::lock_guard lock(pids_mutex_);
  referee_pid_ = referee_.pid;
  return {};
}

expected<child_process> process_session::spawn_runner(std::span<const int> descriptors) {
  CUDAL1_TRY(auto runner, zygote_->spawn("runner", descriptors));
  const std::lock_guard lock(pids_mutex_);
  runner_pids_.push_back(runner.pid);
  return runner;
}

void process_session::forget_runners() {
  const std::lock_guard lock(pids_mutex_);
  runner_pids_.clear();
}

template <class T>
expected<T> process_session::guarded(auto&& work) {
  uint64_t earlier = 0;
  (void)!::read(cancel_.get(), &earlier, sizeof earlier);  // discards a cancel() that came between calls
  expected<T> result = work();
  end_call();
  if (!result) return recover(result.error());
  return result;
}

// Replaces the referee after an error in the middle of an exchange; the zygote only if that fails.
tl::unexpected<error> process_session::recover(error e) {
  const bool ours = e.code == errc::infrastructure || e.code == errc::cancelled || e.code == errc::timeout ||
                    e.code == errc::corrupt || e.code == errc::not_found || e.code == errc::io_error;
  if (!ours) return tl::unexpected<error>(std::move(e));
  if (e.code != errc::cancelled) e.code = errc::infrastructure;
  auto replaced = start_referee();
  if (!replaced) replaced = start_processes();
  referee_replaced();
  if (!replaced) e.message += "; the processes could not be replaced: " + replaced.error().message;
  return tl::unexpected<error>(std::move(e));
}

// ---- requests to the referee ----------------------------------------------------------------------------------------

expected<frame> process_session::wait_reply(deadline until) {
  for (;;) {
    pollfd entries[] = {{referee_socket_.get(), POLLIN, 0}, {zygote_->socket(), POLLIN, 0}, {cancel_.get(), POLLIN, 0}};
    const int r = ::poll(entries, 3, milliseconds_until(until));
    if (r < 0 && errno != EINTR) return fail(errc::infrastructure, "poll: {}", std::strerror(errno));
    if (r == 0) return fail(errc::infrastructure, "timeout: no reply from the referee");
    if (entries[2].revents != 0) return fail(errc::cancelled, "cancelled");
    // The zygote first: if it ended, all processes have ended.
    if (entries[1].revents != 0) CUDAL1_CHECK(zygote_->take_notice());
    if (entries[0].revents == 0) continue;
    auto f = receive_frame(referee_socket_.get(), until);
    if (!f) return fail(errc::infrastructure, "the referee is lost: {}", f.error().message);
    return f;
  }
}

expected<referee_reply> process_session::ask(frame_type type, const json& body, std::span<const int> descriptors,
                                             std::chrono::milliseconds limit) {
  const deadline until = deadline_in(limit + referee_allowance);
  if (const auto sent = send_frame(referee_socket_.get(), type, body, descriptors, until); !sent)
    return fail(errc::infrastructure, "the referee is lost: {}", sent.error().message);
  request_sent();
  CUDAL1_TRY(const frame f, wait_reply(until));
  return record_of<referee_reply>(f);
}

expected<void> process_session::send_task(timing_pool pool) {
  const open_task_request request{canonical_text(*task_), pool == timing_pool::renew};
  std::vector<int> files;
  for (const auto& file : task_files_)
    files.push_back(file.get());
  CUDAL1_TRY(const auto reply, ask(frame_type::open_task, to_json(request), files, std::chrono::milliseconds(0)));
  reference_ms_ = reply.reference_ms;
  task_is_open_ = true;
  return {};
}

expected<void> process_session::ensure_task() {
  if (!task_) return fail(errc::invalid_argument, "open a task first");
  return task_is_open_ ? expected<void>() : send_task(timing_pool::keep);
}

expected<void> process_session::open_task(const task& t, timing_pool pool) {
  if (task_is_open_ && task_ && task_->id == t.id && pool == timing_pool::keep) return {};
  // The referee may not open files. A missing file is an error of the task: no process needs to be replaced.
  std::vector<unique_fd> files;
  for (const auto& name : t.content_files()) {
    auto file = open_blob(blobs_, name);
    if (!file) return fail_in("the weights of " + t.name, file.error());
    files.push_back(std::move(*file));
  }
  task_ = t;
  task_files_ = std::move(files);
  task_is_open_ = false;
  return guarded<void>([&] { return send_task(pool); });
}

expected<void> process_session::forget_tasks() {
  task_is_open_ = false;
  return guarded<void>([&]() -> expected<void> {
    CUDAL1_CHECK(ask(frame_type::forget_tasks, json(json::object()), {}, std::chrono::milliseconds(0)));
    return {};
  });
}

// ---- checking and timing --------------------------------------------------------------------------------------------

expected<fault> process_session::fault_of_lost(const child_process& runner) {
  auto notice = zygote_->wait_exit(runner.pid, exit_allowance);
  if (!notice) return fail(errc::infrastructure, "a runner was lost: {}", notice.error().message);
  for (const int outside : {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT})
    if (notice->signal == outside)
      return fail(errc::infrastructure, "a runner was killed from outside (SIG{}); the system may be out of memory",
                  ::sigabbrev_np(outside));
  return describe_exit(notice->signal, notice->code);
}

expected<check_report> process_session::check(const checked_program& variant, const compiled_code& code,
                                              const check_plan& plan) {
  CUDAL1_TRY(const unique_fd object, object_file(code));
  return guarded<check_report>([&]() -> expected<check_report> {
    CUDAL1_CHECK(ensure_task());
    return ask_check(text_of(variant, code), object, plan);
  });
}

expected<check_report> process_session::check_timing_draws(const checked_program& variant, const compiled_code& code,
                                                           const timing_plan& plan, const check_plan& gates) {
  CUDAL1_TRY(const unique_fd object, object_file(code));
  check_pool_request request{text_of(variant, code), plan,       gates.close, gates.close_loose, true,
                             gates.eager_alone,      gates.sized};
  return guarded<check_report>([&]() -> expected<check_report> {
    CUDAL1_CHECK(ensure_task());
    CUDAL1_TRY(const auto known, ask(frame_type::check_pool, to_json(request), {}, std::chrono::milliseconds(0)));
    if (known.unchecked == 0) return check_report{};
    request.only_count = false;
    return ask_check_pool(request, object, known.unchecked);
  });
}

expected<timing_report> process_session::ask_time_all(const variant_text& variant, const unique_fd& object,
                                                      const timing_plan& plan, int first_fork) {
  timing_report report;
  for (int i = 0; i < plan.forks && !report.problem && report.inconsistency.empty(); ++i) {
    CUDAL1_TRY(const timing_report one, ask_time({variant, plan, first_fork + i}, object));
    add(report, one);
  }
  return report;
}

expected<timing_report> process_session::time(const checked_program& variant, const compiled_code& code,
                                              const timing_plan& plan, int first_fork) {
  CUDAL1_TRY(const unique_fd object, object_file(code));
  const variant_text text = text_of(variant, code);
  const stopwatch took;
  return guarded<timing_report>([&]() -> expected<timing_report> {
    CUDAL1_CHECK(ensure_task());
    CUDAL1_TRY(timing_report report, ask_time_all(text, object, plan, first_fork));
    report.total_ms = took.ms() - report.waited_ms;
    return report;
  });
}

// ---- for other threads ----------------------------------------------------------------------------------------------

int process_session::zygote_pid() const {
  const std::lock_guard lock(pids_mutex_);
  return zygote_pid_;
}

int process_session::referee_pid() const {
  const std::lock_guard lock(pids_mutex_);
  return referee_pid_;
}

std::vector<int> process_session::runner_pids() const {
  const std::lock_guard lock(pids_mutex_);
  return runner_pids_;
}

void process_session::cancel() {
  const uint64_t one = 1;
  (void)!::write(cancel_.get(), &one, sizeof one);
}

}  // namespace cudal1
