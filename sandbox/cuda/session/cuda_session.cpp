#include "sandbox/cuda/session/cuda_session.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include <unistd.h>

#include "config/base/hash.hpp"
#include "config/base/thread_cores.hpp"
#include "sandbox/cuda/gpus/gpu.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/device/environment_id.hpp"
#include "sandbox/device/machine_claims.hpp"
#include "sandbox/device/process_session.hpp"
#include "sandbox/isolation/machine_info.hpp"
#include "sandbox/program/slow_first_call.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::milliseconds conditions_last{1000};
constexpr int most_times = 3;  // how often forks are timed while the GPU is throttled
constexpr std::chrono::milliseconds rest{250};

// One runner serves all requests, until a variant breaks it.
class cuda_session final : public process_session {
 public:
  cuda_session(std::string worker, worker_settings settings, const session_options& options, unique_fd cancel,
               const gpu_description& gpu, std::optional<gpu_watch> watch, gpu_condition at_start)
      : process_session(std::move(worker), std::move(settings), options, std::move(cancel),
                        // The worker sees only that GPU, as its first. The driver's cache of machine code could keep
                        // state between calls.
                        {"CUDA_VISIBLE_DEVICES=" + gpu.uuid, "CUDA_CACHE_DISABLE=1"}),
        index_(gpu.index),
        watch_(std::move(watch)),
        at_start_(std::move(at_start)) {}
  ~cuda_session() override { end_runner(); }
  std::optional<trouble> current_trouble() override;

 private:
  expected<check_report> ask_check(const variant_text& variant, const unique_fd& object,
                                   const check_plan& plan) override;
  expected<check_report> ask_check_pool(const check_pool_request& request, const unique_fd& object,
                                        int unchecked) override;
  expected<timing_report> ask_time(const time_fork_request& request, const unique_fd& object) override;
  expected<timing_report> ask_time_all(const variant_text& variant, const unique_fd& object, const timing_plan& plan,
                                       int first_fork) override;
  void end_call() override {}
  void referee_replaced() override { end_runner(); }

  // Runs a request in the runner, which is started if there is none.
  expected<referee_reply> ask_running(frame_type type, const json& body, const unique_fd& object,
                                      std::chrono::milliseconds limit);
  expected<void> start_runner();
  void end_runner();
  std::vector<int> our_pids() const;
  // Drops the samples if the GPU was throttled or had errors meanwhile. True if it was throttled, which may soon pass.
  bool judge_conditions(const gpu_condition& before, const gpu_condition& after, int tries_left, timing_report& report);
  // A query takes longer than a fork of a small task. A recent result is good enough as the condition before a timing,
  // since errors are counted and throttling lasts.
  std::optional<gpu_condition> condition(std::chrono::milliseconds at_most_old);

  child_process runner_;
  int index_;
  std::optional<gpu_watch> watch_;
  gpu_condition at_start_;  // before this session's processes were
  std::optional<gpu_condition> last_condition_;
  std::chrono::steady_clock::time_point asked_;
};

expected<void> cuda_session::start_runner() {
  CUDAL1_TRY(auto ends, socket_pair());
  const int theirs = ends.second.get();
  CUDAL1_TRY(runner_, spawn_runner({&theirs, 1}));
  ends.second.reset();
  const std::array<int, 2> handed_over{ends.first.get(), runner_.pidfd.get()};
  const auto attached = ask(frame_type::attach, json(json::object()), handed_over, std::chrono::milliseconds(0));
  if (!attached) return fail_in("the runner of the GPU", attached.error());
  return {};
}

void cuda_session::end_runner() {
  if (runner_.pidfd) kill_process(runner_.pidfd.get());
  runner_ = {};
  forget_runners();
}

expected<referee_reply> cuda_session::ask_running(frame_type type, const json& body, const unique_fd& object,
                                                  std::chrono::milliseconds limit) {
  if (!runner_.pidfd) CUDAL1_CHECK(start_runner());
  const int handed_over = object.get();
  CUDAL1_TRY(referee_reply reply, ask(type, body, object ? std::span(&handed_over, 1) : std::span<const int>(), limit));
  if (reply.reference_runner_lost) {
    CUDAL1_TRY(const fault f, fault_of_lost(runner_));
    return fail(errc::infrastructure, "the runner, at the task's own program: {}", f.reason);
  }
  if (reply.variant_runner_lost) {
    CUDAL1_TRY(reply.check.problem, fault_of_lost(runner_));
    reply.timing.problem = reply.check.problem;
  }
  if (reply.runner_ended || reply.variant_runner_lost) end_runner();
  return reply;
}

// Of the first call in a runner.
std::chrono::milliseconds time_of_compiling(const variant_text& variant) {
  return steps_compiled_at_first(variant.program) * compiling_limit;
}

expected<check_report> cuda_session::ask_check(const variant_text& variant, const unique_fd& object,
                                               const check_plan& plan) {
  const auto limit = time_of_calls(plan.call_limit_ms, plan.draws.size()) + time_of_compiling(variant);
  CUDAL1_TRY(auto reply, ask_running(frame_type::check, to_json(check_request{variant, plan}), object, limit));
  return std::move(reply.check);
}

expected<check_report> cuda_session::ask_check_pool(const check_pool_request& request, const unique_fd& object,
                                                    int unchecked) {
  const auto limit = time_of_calls(request.plan.call_limit_ms, static_cast<std::size_t>(unchecked)) +
                     time_of_compiling(request.variant);
  CUDAL1_TRY(auto reply, ask_running(frame_type::check_pool, to_json(request), object, limit));
  return std::move(reply.check);
}

std::optional<gpu_condition> cuda_session::condition(std::chrono::milliseconds at_most_old) {
  if (!watch_) return std::nullopt;
  const auto now = std::chrono::steady_clock::now();
  if (last_condition_ && !last_condition_->throttled && now - asked_ < at_most_old) return last_condition_;
  last_condition_.reset();
  if (auto found = watch_->condition(); found) last_condition_ = std::move(*found);
  asked_ = now;
  return last_condition_;
}

// With contexts on the GPU, the referee first, which has one as long as this session; this process at the end, which
// may compute a model there in turns with the session.
std::vector<int> cuda_session::our_pids() const {
  std::vector<int> ours = runner_pids();
  ours.insert(ours.begin(), referee_pid());
  ours.push_back(::getpid());
  return ours;
}

std::optional<device_session::trouble> cuda_session::current_trouble() {
  const auto now = condition(std::chrono::milliseconds(0));
  if (!now) return std::nullopt;
  if (now->is_partitioned) return trouble{describe_partitioning(index_), true};
  const auto found = disturbance_since(at_start_, *now, our_pids());
  if (!found.broken.empty()) return trouble{found.broken, true};
  if (!found.used.empty()) return trouble{found.used + "; it measures again when that has ended", false};
  return std::nullopt;
}

bool cuda_session::judge_conditions(const gpu_condition& before, const gpu_condition& after, int tries_left,
                                    timing_report& report) {
  auto [why, note] = judge_throttling(before, after, tries_left);
  const bool throttled = !why.empty();
  if (!note.empty()) report.notes.push_back(std::move(note));
  if (after.xid_errors > before.xid_errors) why = "the driver reported an error of the GPU (Xid)";
  if (after.uncorrected_ecc_errors > before.uncorrected_ecc_errors) why = "the GPU's memory had an uncorrected error";
  if (!why.empty()) {
    report.dropped_samples += static_cast<int64_t>(report.samples.size());
    report.samples.clear();
    report.notes.push_back("samples were dropped: " + why);
  }
  for (const int process : processes_of_others(after, our_pids()))
    report.notes.push_back(fmt::format("process {} has a context on this GPU as well", process));
  return throttled;
}

expected<timing_report> cuda_session::ask_time(const time_fork_request& request, const unique_fd& object) {
  const auto calls = 2 * static_cast<std::size_t>(std::max(request.plan.pairs, 1)) + 4;
  const auto limit = time_of_calls(request.plan.call_limit_ms, calls) + time_of_compiling(request.variant);
  CUDAL1_TRY(auto reply, ask_running(frame_type::time_fork, to_json(request), object, limit));
  return std::move(reply.timing);
}

expected<timing_report> cuda_session::ask_time_all(const variant_text& variant, const unique_fd& object,
                                                   const timing_plan& plan, int first_fork) {
  int64_t dropped = 0;
  for (int i = 1;; ++i) {
    const auto before = condition(conditions_last);
    CUDAL1_TRY(timing_report report, process_session::ask_time_all(variant, object, plan, first_fork));
    const auto after = condition(std::chrono::milliseconds(0));
    const bool throttled = before && after && judge_conditions(*before, *after, most_times - i, report);
    // Throttling by the previous task's work soon passes. A fault of the variant is final.
    const bool sound = !report.problem && report.inconsistency.empty();
    dropped += report.dropped_samples;
    if (!sound || !throttled || i == most_times) {
      report.dropped_samples = dropped;
      return report;
    }
    std::this_thread::sleep_for(rest);
  }
}

environment describe_gpu(const session_options& options, const gpu_description& gpu, const std::string& libraries) {
  environment e;
  e.device = options.device;
  e.model = gpu.name;
  e.details = fmt::format("compute capability {}.{}, {} MiB, driver {}, {}, {}, Linux {}", gpu.major, gpu.minor,
                          gpu.memory_bytes >> 20, gpu.driver, libraries, processor_model(), kernel_release());
  e.libraries = libraries;
  e.id = environment_id(e);
  return e;
}

expected<gpu_description> find_gpu(const std::string& device) {
  CUDAL1_TRY(const auto gpus, find_gpus());
  const auto index = index_of_device(device);
  const auto found = std::ranges::find_if(gpus, [&](const auto& g) { return g.index == index; });
  if (found == gpus.end())
    return fail(errc::not_found, "there is no {}: the driver of this machine shows {} GPUs", device, gpus.size());
  return *found;
}

// Timed work moves between the cores, to one where it is fast (core_choice).
expected<worker_settings> settings_of(const session_options& options) {
  std::vector<int> cores = options.cores.empty() ? cores_of_this_thread() : options.cores;
  if (cores.empty()) return fail(errc::infrastructure, "cannot determine the cores that this process may run on");
  worker_settings settings;
  settings.threads = 1;
  settings.timing_core = cores.back();
  cores.pop_back();
  settings.other_cores = std::move(cores);
  settings.flush_bytes = options.flush_bytes;
  settings.allow_weak_confinement = options.allow_weak_confinement;
  settings.memory_bytes = options.memory_bytes;
  settings.cuda_device = 0;
  return settings;
}

// Nobody else may measure on it, or keep it busy. Idle contexts of other programs, as of a notebook, are allowed.
expected<gpu_condition> claim(const gpu_description& gpu, std::optional<gpu_watch>& watch) {
  const std::string device = fmt::format("cuda:{}", gpu.index);
  CUDAL1_TRY(auto* const claims, claims_of_this_process());
  if (auto taken = claims->take(gpu.uuid); !taken)
    return fail(taken.error().code, "{}: {}", device, taken.error().message);
  if (!watch) return gpu_condition();
  CUDAL1_TRY(auto found, watch->condition());
  if (found.is_partitioned) return fail(errc::already_exists, "{}: {}", device, describe_partitioning(gpu.index));
  if (const int percent = watch->utilisation(); percent > 0 && !found.processes.empty())
    return fail(errc::already_exists, "{} is used by {} (utilisation {}%)", device, describe_processes(found.processes),
                percent);
  return found;
}

}  // namespace

expected<std::unique_ptr<device_session>> start_cuda_session(const session_options& options) {
  CUDAL1_TRY(const gpu_description gpu, find_gpu(options.device));
  CUDAL1_TRY(const worker_settings settings, settings_of(options));
  CUDAL1_TRY(const std::string worker, find_worker(options.worker, cuda_worker));
  CUDAL1_TRY(unique_fd cancel, make_cancel_event());
  std::optional<gpu_watch> watch;
  if (auto opened = gpu_watch::open(gpu.uuid); opened) watch = std::move(*opened);
  CUDAL1_TRY(auto at_start, claim(gpu, watch));
  auto session = std::make_unique<cuda_session>(worker, settings, options, std::move(cancel), gpu, std::move(watch),
                                                std::move(at_start));
  CUDAL1_CHECK(session->start([&](const std::string& libraries) { return describe_gpu(options, gpu, libraries); }));
  return session;
}

}  // namespace cudal1
