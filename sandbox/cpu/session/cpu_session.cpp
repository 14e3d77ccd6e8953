#include "sandbox/cpu/session/cpu_session.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "config/base/thread_cores.hpp"
#include "sandbox/cpu/session/core_watch.hpp"
#include "sandbox/cpu/session/machine.hpp"
#include "sandbox/device/core_turn.hpp"
#include "sandbox/device/process_session.hpp"
#include "sandbox/isolation/control_block.hpp"
#include "sandbox/isolation/machine_info.hpp"
#include "sandbox/isolation/shared_memory.hpp"

namespace cudal1 {
namespace {

// A runner's process, and the session's descriptors of what the two share.
struct runner_handle {
  child_process process;
  unique_fd channel, control, arena;
};

// Fresh runners for each request: the variant is native code.
class cpu_session final : public process_session {
 public:
  cpu_session(std::string worker, const worker_settings& settings, const session_options& options, unique_fd cancel,
              std::optional<core_turn> turn)
      : process_session(std::move(worker), settings, options, std::move(cancel)),
        turn_(std::move(turn)),
        watch_(settings.timing_core) {}
  ~cpu_session() override { end_runners(); }

 private:
  expected<check_report> ask_check(const variant_text& variant, const unique_fd& object,
                                   const check_plan& plan) override;
  expected<check_report> ask_check_pool(const check_pool_request& request, const unique_fd& object,
                                        int unchecked) override;
  expected<timing_report> ask_time(const time_fork_request& request, const unique_fd& object) override;
  expected<timing_report> ask_time_all(const variant_text& variant, const unique_fd& object, const timing_plan& plan,
                                       int first_fork) override;
  void end_call() override {
    end_runners();
    if (turn_) turn_->give_back();
  }
  // Closes this process's copies, so that the referee and the runners notice each other's end.
  void request_sent() override {
    for (const auto& runner : runners_)
      runner->channel.reset();
  }

  expected<runner_handle*> start_runner(int64_t memory_bytes);
  void end_runners();
  std::vector<int> descriptors_of(std::span<runner_handle* const> runners, const unique_fd& object) const;
  // Until the call ends, no other session of this machine uses the timing core. In milliseconds.
  expected<double> wait_for_turn() { return turn_ ? turn_->take(cancel_event()) : 0.0; }

  std::vector<std::unique_ptr<runner_handle>> runners_;
  std::optional<core_turn> turn_;  // none where the machine's folder of claims cannot be used
  core_watch watch_;
};

expected<runner_handle*> cpu_session::start_runner(int64_t memory_bytes) {
  auto runner = std::make_unique<runner_handle>();
  CUDAL1_TRY(auto ends, socket_pair());
  CUDAL1_TRY(runner->control, make_shared_memory("cudal1-control", control_block::bytes));
  CUDAL1_TRY(runner->arena, make_shared_memory("cudal1-arena", memory_bytes));
  const std::array<int, 3> theirs{ends.second.get(), runner->control.get(), runner->arena.get()};
  CUDAL1_TRY(runner->process, spawn_runner(theirs));
  runner->channel = std::move(ends.first);
  runners_.push_back(std::move(runner));
  return runners_.back().get();
}

void cpu_session::end_runners() {
  for (const auto& runner : runners_)
    kill_process(runner->process.pidfd.get());
  runners_.clear();
  forget_runners();
}

std::vector<int> cpu_session::descriptors_of(std::span<runner_handle* const> runners, const unique_fd& object) const {
  std::vector<int> all;
  for (const auto* r : runners)
    for (const int fd : {r->channel.get(), r->control.get(), r->arena.get(), r->process.pidfd.get()})
      all.push_back(fd);
  if (object) all.push_back(object.get());
  return all;
}

expected<check_report> cpu_session::ask_check(const variant_text& variant, const unique_fd& object,
                                              const check_plan& plan) {
  CUDAL1_CHECK(wait_for_turn());
  CUDAL1_TRY(runner_handle* const runner, start_runner(plan.memory_limit_bytes));
  const auto descriptors = descriptors_of({&runner, 1}, object);
  CUDAL1_TRY(auto reply, ask(frame_type::check, to_json(check_request{variant, plan}), descriptors,
                             time_of_calls(plan.call_limit_ms, plan.draws.size())));
  if (reply.variant_runner_lost) {
    CUDAL1_TRY(reply.check.problem, fault_of_lost(runner->process));
  }
  return std::move(reply.check);
}

expected<check_report> cpu_session::ask_check_pool(const check_pool_request& request, const unique_fd& object,
                                                   int unchecked) {
  CUDAL1_CHECK(wait_for_turn());
  CUDAL1_TRY(runner_handle* const runner, start_runner(request.plan.memory_limit_bytes));
  const auto descriptors = descriptors_of({&runner, 1}, object);
  CUDAL1_TRY(auto reply, ask(frame_type::check_pool, to_json(request), descriptors,
                             time_of_calls(request.plan.call_limit_ms, static_cast<std::size_t>(unchecked))));
  if (reply.variant_runner_lost) {
    CUDAL1_TRY(reply.check.problem, fault_of_lost(runner->process));
  }
  return std::move(reply.check);
}

expected<timing_report> cpu_session::ask_time(const time_fork_request& request, const unique_fd& object) {
  const timing_plan& plan = request.plan;
  CUDAL1_TRY(runner_handle* const reference, start_runner(plan.memory_limit_bytes));
  CUDAL1_TRY(runner_handle* const timed, start_runner(plan.memory_limit_bytes));
  const std::array<runner_handle*, 2> both{reference, timed};
  CUDAL1_TRY(auto reply, ask(frame_type::time_fork, to_json(request), descriptors_of(both, object),
                             time_of_calls(plan.call_limit_ms, 2 * static_cast<std::size_t>(std::max(plan.pairs, 1)))));
  if (reply.reference_runner_lost) {
    CUDAL1_TRY(const fault f, fault_of_lost(reference->process));
    return fail(errc::infrastructure, "the runner of the task's own program: {}", f.reason);
  }
  if (reply.variant_runner_lost) {
    CUDAL1_TRY(reply.timing.problem, fault_of_lost(timed->process));
  }
  watch_.add_own(processor_ms(reference->process.pid) + processor_ms(timed->process.pid) + reply.timing.flush_ms);
  end_runners();
  return std::move(reply.timing);
}

expected<timing_report> cpu_session::ask_time_all(const variant_text& variant, const unique_fd& object,
                                                  const timing_plan& plan, int first_fork) {
  CUDAL1_TRY(const double waited_ms, wait_for_turn());
  watch_.begin();
  CUDAL1_TRY(timing_report report, process_session::ask_time_all(variant, object, plan, first_fork));
  report.sharing = watch_.end(zygote_pid());
  report.waited_ms = waited_ms;
  return report;
}

// A call's draw is one that its process has not seen, so the flush only has to evict what earlier calls left behind: a
// few megabytes. Some servers have a last-level cache of half a gigabyte; reading all of it would take a hundred times
// as long as the call.
constexpr int64_t max_flush_bytes = int64_t{64} << 20;

expected<worker_settings> settings_of(const session_options& options) {
  const std::vector<int> cores = cores_of_this_thread();
  if (cores.empty()) return fail(errc::infrastructure, "cannot determine the cores that this process may run on");
  worker_settings settings;
  settings.threads = options.threads;
  settings.timing_core = options.timing_core < 0 ? cores.back() : options.timing_core;
  if (!std::ranges::count(cores, settings.timing_core))
    return fail(errc::invalid_argument, "timing_core {}: this process may not run on that core", settings.timing_core);
  if (options.threads < 1 || options.threads > static_cast<int>(cores.size()))
    return fail(errc::invalid_argument, "threads = {}: there are {} cores", options.threads, cores.size());
  std::ranges::copy_if(cores, std::back_inserter(settings.other_cores),
                       [&](int core) { return core != settings.timing_core; });
  settings.flush_bytes =
      options.flush_bytes > 0 ? options.flush_bytes : std::min(last_level_cache_bytes() / 4 * 5, max_flush_bytes);
  settings.allow_weak_confinement = options.allow_weak_confinement;
  settings.memory_bytes = options.memory_bytes;
  return settings;
}

// None where the machine has no usable folder of claims: its node has said that others may disturb it then.
expected<std::optional<core_turn>> turn_on(int core) {
  const auto claims = claims_of_this_process();
  if (!claims) return std::optional<core_turn>();
  CUDAL1_TRY(auto turn, core_turn::open(**claims, core));
  return std::optional(std::move(turn));
}

}  // namespace

expected<std::unique_ptr<device_session>> start_cpu_session(const session_options& options) {
  CUDAL1_TRY(const worker_settings settings, settings_of(options));
  CUDAL1_TRY(const std::string worker, find_worker(options.worker));
  CUDAL1_TRY(unique_fd cancel, make_cancel_event());
  CUDAL1_TRY(auto turn, turn_on(settings.timing_core));
  auto session = std::make_unique<cpu_session>(worker, settings, options, std::move(cancel), std::move(turn));
  CUDAL1_CHECK(session->start(
      [&](const std::string& libraries) { return describe_machine(options.device, settings, libraries); }));
  return session;
}

}  // namespace cudal1
