#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "config/base/hash.hpp"
#include "config/configuration.hpp"
#include "sandbox/device/cpu_session.hpp"
#include "sandbox/device/machine.hpp"
#include "sandbox/device/worker_process.hpp"
#include "sandbox/process/control_block.hpp"
#include "sandbox/process/fault_text.hpp"
#include "sandbox/process/process_memory.hpp"
#include "sandbox/process/shared_memory.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1 {
namespace {

// Of one request beyond what its calls may take: draws, answers, a machine under load.
constexpr std::chrono::seconds referee_allowance{180};
constexpr std::chrono::seconds exit_allowance{3};

// A runner as the session holds it: its processes' ends of what the two share.
struct runner_handle {
  child_process process;
  unique_fd channel, control, arena;
};

class cpu_session final : public device_session {
 public:
  cpu_session(std::string worker, worker_settings settings, const verification_options& gates, unique_fd cancel)
      : worker_(std::move(worker)), settings_(std::move(settings)), gates_(gates), cancel_(std::move(cancel)) {}
  ~cpu_session() override { end_runners(); }

  expected<void> start_processes();
  void set_report(device_report report) { report_ = std::move(report); }
  const zygote_report& zygote() const { return zygote_->report(); }

  const device_report& report() const override { return report_; }
  expected<void> open_task(const task& t, bool renew) override;
  expected<check_report> check(const checked_program& variant, const compiled_code& code,
                               const check_plan& plan) override;
  expected<timing_report> time(const checked_program& variant, const compiled_code& code, const timing_plan& plan,
                               int first_fork) override;
  int zygote_pid() const override;
  int referee_pid() const override;
  std::vector<int> runner_pids() const override;
  void cancel() override;

 private:
  expected<void> start_referee();
  // Runs one call of the contract: afterwards no runner is left, and what died has been replaced.
  template <class T>
  expected<T> guarded(auto&& work);
  tl::unexpected<error> recover(error e);
  expected<void> ensure_task();
  expected<void> send_task(bool renew);

  expected<runner_handle*> start_runner(int64_t memory_bytes);
  void end_runners();
  expected<referee_reply> ask(frame_type type, const json& body, std::span<const int> descriptors,
                              std::chrono::milliseconds limit);
  expected<frame> wait_reply(deadline until);
  std::vector<int> descriptors_of(std::span<runner_handle* const> runners, const unique_fd& object) const;
  // The fault of a runner that left no record, from how its process ended.
  expected<fault> fault_of_lost(const runner_handle& runner);

  expected<check_report> check_now(const variant_text& variant, const unique_fd& object, const check_plan& plan);
  // Fills problem or inconsistency where the variant is not right on the whole timing pool.
  expected<void> check_timing_pool(const variant_text& variant, const unique_fd& object, const timing_plan& plan,
                                   timing_report& report);
  expected<void> time_fork(const variant_text& variant, const unique_fd& object, const timing_plan& plan, int fork,
                           timing_report& report);

  std::string worker_;
  worker_settings settings_;
  verification_options gates_;
  unique_fd cancel_;
  device_report report_;
  std::optional<zygote_link> zygote_;
  child_process referee_;
  unique_fd referee_socket_;
  std::optional<task> task_;
  bool task_is_open_ = false;
  std::vector<std::unique_ptr<runner_handle>> runners_;
  mutable std::mutex pids_mutex_;  // of what other threads may ask
  int zygote_pid_ = 0, referee_pid_ = 0;
  std::vector<int> runner_pids_;
};

// ---- processes ------------------------------------------------------------------------------------------------------

expected<void> cpu_session::start_processes() {
  zygote_.reset();
  auto started = zygote_link::start(worker_, settings_);
  if (!started) return tl::unexpected<error>(started.error());
  zygote_.emplace(std::move(*started));
  {
    const std::lock_guard lock(pids_mutex_);
    zygote_pid_ = zygote_->pid();
  }
  return start_referee();
}

expected<void> cpu_session::start_referee() {
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

expected<runner_handle*> cpu_session::start_runner(int64_t memory_bytes) {
  auto runner = std::make_unique<runner_handle>();
  CUDAL1_TRY(auto ends, socket_pair());
  CUDAL1_TRY(runner->control, make_shared_memory("cudal1-control", control_block::bytes));
  CUDAL1_TRY(runner->arena, make_shared_memory("cudal1-arena", memory_bytes));
  const std::array<int, 3> theirs{ends.second.get(), runner->control.get(), runner->arena.get()};
  CUDAL1_TRY(runner->process, zygote_->spawn("runner", theirs));
  runner->channel = std::move(ends.first);
  runners_.push_back(std::move(runner));
  const std::lock_guard lock(pids_mutex_);
  runner_pids_.push_back(runners_.back()->process.pid);
  return runners_.back().get();
}

void cpu_session::end_runners() {
  for (const auto& runner : runners_)
    kill_process(runner->process.pidfd.get());
  runners_.clear();
  const std::lock_guard lock(pids_mutex_);
  runner_pids_.clear();
}

template <class T>
expected<T> cpu_session::guarded(auto&& work) {
  uint64_t earlier = 0;
  (void)!::read(cancel_.get(), &earlier, sizeof earlier);  // a cancel() of no call
  expected<T> result = work();
  end_runners();
  if (!result) return recover(result.error());
  return result;
}

// Only what is broken is replaced; after an error in the middle of a conversation the referee is.
tl::unexpected<error> cpu_session::recover(error e) {
  const bool ours = e.code == errc::infrastructure || e.code == errc::cancelled || e.code == errc::timeout ||
                    e.code == errc::corrupt || e.code == errc::not_found || e.code == errc::io_error;
  if (!ours) return tl::unexpected<error>(std::move(e));
  if (e.code != errc::cancelled) e.code = errc::infrastructure;
  auto replaced = start_referee();
  if (!replaced) replaced = start_processes();
  if (!replaced) e.message += "; and could not be replaced: " + replaced.error().message;
  return tl::unexpected<error>(std::move(e));
}

// ---- asking the referee ---------------------------------------------------------------------------------------------

expected<frame> cpu_session::wait_reply(deadline until) {
  for (;;) {
    pollfd entries[] = {{referee_socket_.get(), POLLIN, 0}, {zygote_->socket(), POLLIN, 0}, {cancel_.get(), POLLIN, 0}};
    const int r = ::poll(entries, 3, milliseconds_until(until));
    if (r < 0 && errno != EINTR) return fail(errc::infrastructure, "poll: {}", std::strerror(errno));
    if (r == 0) return fail(errc::infrastructure, "the referee did not answer in time");
    if (entries[2].revents != 0) return fail(errc::cancelled, "cancelled");
    // The zygote first: its end is the end of all.
    if (entries[1].revents != 0) CUDAL1_CHECK(zygote_->take_notice());
    if (entries[0].revents == 0) continue;
    auto f = receive_frame(referee_socket_.get(), until);
    if (!f) return fail(errc::infrastructure, "the referee is lost: {}", f.error().message);
    return f;
  }
}

expected<referee_reply> cpu_session::ask(frame_type type, const json& body, std::span<const int> descriptors,
                                         std::chrono::milliseconds limit) {
  const deadline until = deadline_in(limit + referee_allowance);
  if (const auto sent = send_frame(referee_socket_.get(), type, body, descriptors, until); !sent)
    return fail(errc::infrastructure, "the referee is lost: {}", sent.error().message);
  // What the referee and the runners hold is theirs alone from here, so that an end of one is seen by the other.
  for (const auto& runner : runners_)
    runner->channel.reset();
  CUDAL1_TRY(const frame f, wait_reply(until));
  return record_of<referee_reply>(f);
}

expected<void> cpu_session::send_task(bool renew) {
  const open_task_request request{canonical_text(*task_), renew};
  CUDAL1_CHECK(ask(frame_type::open_task, to_json(request), {}, std::chrono::milliseconds(0)));
  task_is_open_ = true;
  return {};
}

expected<void> cpu_session::ensure_task() {
  if (!task_) return fail(errc::invalid_argument, "open a task first");
  return task_is_open_ ? expected<void>() : send_task(false);
}

expected<void> cpu_session::open_task(const task& t, bool renew) {
  if (task_is_open_ && task_ && task_->id == t.id && !renew) return {};
  task_ = t;
  task_is_open_ = false;
  return guarded<void>([&] { return send_task(renew); });
}

// ---- checking and timing --------------------------------------------------------------------------------------------

expected<unique_fd> object_file(const compiled_code& code) {
  return code.object.empty() ? expected<unique_fd>(unique_fd()) : make_sealed_file("cudal1-object", code.object);
}

variant_text text_of(const checked_program& variant, const compiled_code& code) {
  const fingerprint object = fingerprint_of(code.object.data(), code.object.size(), 0);
  return {print_program(variant.text), fmt::format("{}-{:016x}{:016x}", variant.id, object.high, object.low)};
}

std::chrono::milliseconds time_of_calls(double call_limit_ms, std::size_t calls) {
  return std::chrono::milliseconds(static_cast<int64_t>(call_limit_ms * static_cast<double>(calls + 6)));
}

std::vector<int> cpu_session::descriptors_of(std::span<runner_handle* const> runners, const unique_fd& object) const {
  std::vector<int> all;
  for (const auto* r : runners)
    for (const int fd : {r->channel.get(), r->control.get(), r->arena.get(), r->process.pidfd.get()})
      all.push_back(fd);
  if (object) all.push_back(object.get());
  return all;
}

expected<fault> cpu_session::fault_of_lost(const runner_handle& runner) {
  auto notice = zygote_->wait_exit(runner.process.pid, exit_allowance);
  if (!notice) return fail(errc::infrastructure, "a runner was lost: {}", notice.error().message);
  for (const int outside : {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT})
    if (notice->signal == outside)
      return fail(errc::infrastructure, "a runner was ended from outside (SIG{}): by the system for want of memory?",
                  ::sigabbrev_np(outside));
  return describe_exit(notice->signal, notice->code);
}

expected<check_report> cpu_session::check_now(const variant_text& variant, const unique_fd& object,
                                              const check_plan& plan) {
  CUDAL1_CHECK(ensure_task());
  CUDAL1_TRY(runner_handle* const runner, start_runner(plan.memory_limit_bytes));
  const auto descriptors = descriptors_of({&runner, 1}, object);
  CUDAL1_TRY(auto reply, ask(frame_type::check, to_json(check_request{variant, plan}), descriptors,
                             time_of_calls(plan.call_limit_ms, plan.draws.size())));
  if (reply.variant_runner_lost) {
    CUDAL1_TRY(reply.check.problem, fault_of_lost(*runner));
  }
  return std::move(reply.check);
}

expected<check_report> cpu_session::check(const checked_program& variant, const compiled_code& code,
                                          const check_plan& plan) {
  CUDAL1_TRY(const unique_fd object, object_file(code));
  return guarded<check_report>([&] { return check_now(text_of(variant, code), object, plan); });
}

expected<void> cpu_session::check_timing_pool(const variant_text& variant, const unique_fd& object,
                                              const timing_plan& plan, timing_report& report) {
  check_plan judged = plan_check(*task_, gates_);
  const check_pool_request request{variant, plan, judged.close, judged.close_loose};
  CUDAL1_TRY(const auto known, ask(frame_type::check_pool, to_json(request), {}, std::chrono::milliseconds(0)));
  if (known.unchecked == 0) return {};
  CUDAL1_TRY(runner_handle* const runner, start_runner(plan.memory_limit_bytes));
  const auto descriptors = descriptors_of({&runner, 1}, object);
  CUDAL1_TRY(auto reply, ask(frame_type::check_pool, to_json(request), descriptors,
                             time_of_calls(plan.call_limit_ms, static_cast<std::size_t>(known.unchecked))));
  if (reply.variant_runner_lost) {
    CUDAL1_TRY(reply.check.problem, fault_of_lost(*runner));
  }
  report.problem = reply.check.problem;
  report.load_ms += reply.check.load_ms;
  if (report.problem) return {};
  judged.draws.clear();
  judged.repeat_first = false;
  for (const auto& d : reply.check.draws)
    judged.draws.push_back(d.draw);
  const judgement j = judge(*task_, judged, reply.check, gates_);
  if (j.result != outcome::correct) report.inconsistency = "on the draws of the timing pool: " + j.reason;
  return {};
}

expected<void> cpu_session::time_fork(const variant_text& variant, const unique_fd& object, const timing_plan& plan,
                                      int fork, timing_report& report) {
  CUDAL1_TRY(runner_handle* const reference, start_runner(plan.memory_limit_bytes));
  CUDAL1_TRY(runner_handle* const timed, start_runner(plan.memory_limit_bytes));
  const std::array<runner_handle*, 2> both{reference, timed};
  CUDAL1_TRY(auto reply,
             ask(frame_type::time_fork, to_json(time_fork_request{variant, plan, fork}), descriptors_of(both, object),
                 time_of_calls(plan.call_limit_ms, 2 * static_cast<std::size_t>(std::max(plan.pairs, 1)))));
  if (reply.reference_runner_lost) {
    CUDAL1_TRY(const fault f, fault_of_lost(*reference));
    return fail(errc::infrastructure, "the runner of the task's own program: {}", f.reason);
  }
  if (reply.variant_runner_lost) {
    CUDAL1_TRY(report.problem, fault_of_lost(*timed));
  }
  timing_report& one = reply.timing;
  if (one.problem) report.problem = one.problem;
  report.samples.insert(report.samples.end(), one.samples.begin(), one.samples.end());
  report.outputs_fingerprinted += one.outputs_fingerprinted;
  report.outputs_compared += one.outputs_compared;
  if (report.inconsistency.empty()) report.inconsistency = one.inconsistency;
  report.flush_ms += one.flush_ms;
  report.load_ms += one.load_ms;
  end_runners();
  return {};
}

expected<timing_report> cpu_session::time(const checked_program& variant, const compiled_code& code,
                                          const timing_plan& plan, int first_fork) {
  CUDAL1_TRY(const unique_fd object, object_file(code));
  const variant_text text = text_of(variant, code);
  const auto start = std::chrono::steady_clock::now();
  return guarded<timing_report>([&]() -> expected<timing_report> {
    timing_report report;
    CUDAL1_CHECK(ensure_task());
    CUDAL1_CHECK(check_timing_pool(text, object, plan, report));
    end_runners();
    for (int i = 0; i < plan.forks && !report.problem && report.inconsistency.empty(); ++i)
      CUDAL1_CHECK(time_fork(text, object, plan, first_fork + i, report));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    report.total_ms = took.count();
    return report;
  });
}

// ---- what other threads may ask -------------------------------------------------------------------------------------

int cpu_session::zygote_pid() const {
  const std::lock_guard lock(pids_mutex_);
  return zygote_pid_;
}

int cpu_session::referee_pid() const {
  const std::lock_guard lock(pids_mutex_);
  return referee_pid_;
}

std::vector<int> cpu_session::runner_pids() const {
  const std::lock_guard lock(pids_mutex_);
  return runner_pids_;
}

void cpu_session::cancel() {
  const uint64_t one = 1;
  (void)!::write(cancel_.get(), &one, sizeof one);
}

expected<worker_settings> settings_of(const session_options& options) {
  const std::vector<int> cores = allowed_cores();
  worker_settings settings;
  settings.threads = options.threads;
  settings.timing_core = options.timing_core < 0 ? cores.back() : options.timing_core;
  if (!std::ranges::count(cores, settings.timing_core))
    return fail(errc::invalid_argument, "timing_core {}: this process may not run there", settings.timing_core);
  if (options.threads < 1 || options.threads > static_cast<int>(cores.size()))
    return fail(errc::invalid_argument, "threads = {}: there are {} cores", options.threads, cores.size());
  std::ranges::copy_if(cores, std::back_inserter(settings.other_cores),
                       [&](int core) { return core != settings.timing_core; });
  settings.flush_bytes = options.flush_bytes > 0 ? options.flush_bytes : last_level_cache_bytes() / 4 * 5;
  settings.allow_weak_confinement = options.allow_weak_confinement;
  return settings;
}

}  // namespace

expected<std::unique_ptr<device_session>> start_cpu_session(const session_options& options) {
  const auto start = std::chrono::steady_clock::now();
  CUDAL1_TRY(const worker_settings settings, settings_of(options));
  CUDAL1_TRY(const std::string worker, find_worker(options.worker));
  unique_fd cancel(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!cancel) return fail(errc::infrastructure, "eventfd: {}", std::strerror(errno));
  auto session = std::make_unique<cpu_session>(worker, settings, options.verification, std::move(cancel));
  CUDAL1_CHECK(session->start_processes());
  device_report report;
  report.where = describe_machine(options.device, settings, session->zygote().libraries);
  report.confinement = session->zygote().confinement;
  if (const auto missing = missing_confinement(report.confinement); !missing.empty() && !options.allow_weak_confinement)
    return fail(
        errc::refused,
        "this system refuses a confinement that untrusted code needs: {}; allow_weak_confinement = true runs it "
        "nevertheless",
        missing);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report.start_ms = took.count();
  session->set_report(std::move(report));
  return session;
}

}  // namespace cudal1
