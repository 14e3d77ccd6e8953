// The referee: trusted, without network and without new programs. It answers its session, one request at a time.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>

#include <malloc.h>
#include <unistd.h>

#include "sandbox/cpu/referee/cpu_timer.hpp"
#include "sandbox/cpu/runner/cpu_roles.hpp"
#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/process_memory.hpp"
#include "sandbox/referee/draws.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::hours patience{24 * 365};
constexpr std::chrono::seconds answer_limit{60};
constexpr std::size_t tasks_kept = 8;

class referee {
 public:
  static expected<std::unique_ptr<referee>> create(const worker_settings& settings);
  expected<referee_reply> answer(frame& f);

 private:
  // One task's draws and what the variants gave on them.
  struct open_task_state {
    std::unique_ptr<draw_pool> pool;
    known_outputs known;
  };

  referee(core_control cores, int64_t memory_bound)
      : cores_(std::move(cores)), memory_bound_(memory_bound), secret_(system_seed()) {}
  expected<referee_reply> open(const frame& f);
  expected<referee_reply> check(frame& f);
  expected<referee_reply> check_pool(frame& f);
  expected<referee_reply> time_fork(frame& f);
  expected<open_task_state*> current();
  void forget_old_tasks();

  mapping arena_;
  core_control cores_;
  int64_t memory_bound_;  // of all pools together
  uint64_t secret_;
  std::list<open_task_state> tasks_;  // the current one comes first
};

expected<std::unique_ptr<referee>> referee::create(const worker_settings& settings) {
  // What one draw gives back the next one uses, instead of the system taking it and handing out zeroed pages.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 28);
  const int64_t physical = physical_memory_bytes();
  CUDAL1_TRY(mapping arena, map_private(std::max<int64_t>(physical / 2, int64_t{1} << 30)));
  CUDAL1_CHECK(install_arena({.base = arena.data(),
                              .bytes = static_cast<int64_t>(arena.size()),
                              .poison_seed = system_seed(),
                              .poison = false}));
  CUDAL1_TRY(auto cores, core_control::create(settings));
  const int64_t bound = std::clamp<int64_t>(physical / 6, int64_t{256} << 20, int64_t{6} << 30);
  std::unique_ptr<referee> result(new referee(std::move(cores), bound));
  result->arena_ = std::move(arena);
  return result;
}

expected<referee::open_task_state*> referee::current() {
  if (tasks_.empty()) return fail(errc::invalid_argument, "no task is open");
  return &tasks_.front();
}

void referee::forget_old_tasks() {
  int64_t bytes = 0;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    bytes += it->pool->bytes();
    const bool old = it != tasks_.begin() &&
                     (bytes > memory_bound_ || std::distance(tasks_.begin(), it) >= static_cast<int>(tasks_kept));
    if (old) bytes -= it->pool->bytes();
    it = old ? tasks_.erase(it) : std::next(it);
  }
}

expected<referee_reply> referee::open(const frame& f) {
  CUDAL1_TRY(const auto request, record_of<open_task_request>(f));
  CUDAL1_TRY(task t, read_task(request.task, "cpu"));
  const auto found = std::ranges::find_if(tasks_, [&](const auto& s) { return s.pool->of().id == t.id; });
  if (found != tasks_.end()) {
    tasks_.splice(tasks_.begin(), tasks_, found);
    if (request.renew) {
      tasks_.front().pool->renew();
      tasks_.front().known = {};
    }
  } else {
    CUDAL1_TRY(auto contents, weight_contents::map(t, f.descriptors));
    CUDAL1_TRY(auto pool, draw_pool::open(std::move(t), std::move(contents), memory_bound_));
    tasks_.emplace_front().pool = std::move(pool);
  }
  forget_old_tasks();
  return referee_reply{};
}

// The last descriptor of a request where the variant has kernels.
int object_of(const frame& f, std::size_t runners) {
  const std::size_t index = runners * descriptors_of_runner;
  return f.descriptors.size() > index ? f.descriptors[index].get() : -1;
}

std::span<unique_fd> runner_of(frame& f, std::size_t index) {
  const std::size_t first = index * descriptors_of_runner;
  if (f.descriptors.size() < first + descriptors_of_runner) return {};
  return std::span(f.descriptors).subspan(first, descriptors_of_runner);
}

expected<referee_reply> referee::check(frame& f) {
  CUDAL1_TRY(const auto request, record_of<check_request>(f));
  CUDAL1_TRY(auto* const state, current());
  CUDAL1_TRY(const auto variant, check_program_text(request.variant.program));
  CUDAL1_TRY(auto runner, runner_link::attach(runner_of(f, 0), variant,
                                              {request.plan.call_limit_ms, request.plan.memory_limit_bytes}));
  checker checks(*state->pool, state->known, secret_);
  referee_reply reply;
  if (const auto loaded = runner.load(request.variant.program, object_of(f, 1)); loaded) {
    CUDAL1_TRY(reply.check, checks.check(runner, request.variant.key, request.plan));
  } else if (loaded.error().code != errc::variant_fault) {
    return tl::unexpected<error>(loaded.error());
  }
  reply.check.problem = runner.problem();
  reply.variant_runner_lost = runner.lost();
  return reply;
}

expected<referee_reply> referee::check_pool(frame& f) {
  CUDAL1_TRY(const auto request, record_of<check_pool_request>(f));
  CUDAL1_TRY(auto* const state, current());
  checker checks(*state->pool, state->known, secret_);
  referee_reply reply;
  reply.unchecked = checks.unchecked(request.variant.key);
  if (request.only_count) return reply;
  CUDAL1_TRY(const auto variant, check_program_text(request.variant.program));
  CUDAL1_TRY(auto runner, runner_link::attach(runner_of(f, 0), variant,
                                              {request.plan.call_limit_ms, request.plan.memory_limit_bytes}));
  if (const auto loaded = runner.load(request.variant.program, object_of(f, 1)); loaded) {
    CUDAL1_TRY(reply.check, checks.check_pool(runner, request));
  } else if (loaded.error().code != errc::variant_fault) {
    return tl::unexpected<error>(loaded.error());
  }
  reply.check.problem = runner.problem();
  reply.variant_runner_lost = runner.lost();
  reply.unchecked = checks.unchecked(request.variant.key);
  return reply;
}

expected<referee_reply> referee::time_fork(frame& f) {
  CUDAL1_TRY(const auto request, record_of<time_fork_request>(f));
  CUDAL1_TRY(auto* const state, current());
  CUDAL1_TRY(const auto variant, check_program_text(request.variant.program));
  const call_limits limits{request.plan.call_limit_ms, request.plan.memory_limit_bytes, cores_.is_shared()};
  const checked_program& original = state->pool->of().reference;
  CUDAL1_TRY(auto reference_runner, runner_link::attach(runner_of(f, 0), original, limits));
  CUDAL1_TRY(auto variant_runner, runner_link::attach(runner_of(f, 1), variant, limits));
  checker checks(*state->pool, state->known, secret_);
  call_timer timer(*state->pool, checks, state->known, cores_);
  referee_reply reply;
  if (const auto loaded = reference_runner.load(print_program(original.text), -1); !loaded)
    return fail(errc::infrastructure, "the reference's runner: {}", loaded.error().message);
  if (const auto loaded = variant_runner.load(request.variant.program, object_of(f, 2)); loaded) {
    CUDAL1_TRY(reply.timing, timer.time(reference_runner, variant_runner, request));
  } else if (loaded.error().code != errc::variant_fault) {
    return tl::unexpected<error>(loaded.error());
  }
  reply.timing.problem = variant_runner.problem();
  reply.variant_runner_lost = variant_runner.lost();
  reply.reference_runner_lost = reference_runner.lost();
  return reply;
}

expected<referee_reply> referee::answer(frame& f) {
  switch (f.type) {
    case frame_type::open_task:
      return open(f);
    case frame_type::check:
      return check(f);
    case frame_type::check_pool:
      return check_pool(f);
    case frame_type::time_fork:
      return time_fork(f);
    case frame_type::forget_tasks:
      tasks_.clear();
      ::malloc_trim(0);
      return referee_reply{};
    default:
      return fail(errc::corrupt, "a referee does not take a {} frame", enum_name(f.type));
  }
}

}  // namespace

int run_referee(const worker_settings& settings, int socket, int zygote) {
  auto self = referee::create(settings);
  if (!self) {
    (void)send_failure(socket, self.error(), deadline_in(answer_limit));
    return exit_broken;
  }
  const auto prepared = confinement::prepare({.role = confined_role::referee, .expected_parent = zygote});
  if (!prepared) return exit_broken;
  if (prepared->enter().failed() != nullptr && !settings.allow_weak_confinement) return exit_confinement;
  for (;;) {
    auto f = receive_frame(socket, deadline_in(patience));
    if (!f) return f.error().code == errc::not_found ? exit_orderly : exit_broken;
    const auto reply = (*self)->answer(*f);
    f->descriptors.clear();  // the runners' ends: they see that they are not needed any more
    const auto sent = reply ? send_record(socket, frame_type::done, *reply, deadline_in(answer_limit))
                            : send_failure(socket, reply.error(), deadline_in(answer_limit));
    if (!sent) return exit_broken;
  }
}

}  // namespace cudal1
