#include "sandbox/cuda/referee/cuda_referee.hpp"

#include <algorithm>

#include "sandbox/cuda/referee/gpu_timer.hpp"
#include "sandbox/isolation/confine.hpp"
#include "sandbox/isolation/zygote.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::hours patience{24 * 365};
constexpr std::chrono::seconds answer_limit{60};
constexpr std::size_t tasks_kept = 32;
constexpr int64_t share_of_memory = 3;  // the draws of all tasks take one part of so many of what is free
constexpr int64_t least_memory = int64_t{256} << 20;

// What a draw's memory is laid out by is the task's: a variant declares the same.
std::optional<fault> declaration_problem(const checked_program& variant, const checked_program& reference) {
  const auto differ = [](const std::vector<tensor_declaration>& a, const std::vector<tensor_declaration>& b) {
    return !std::ranges::equal(a, b, {}, &tensor_declaration::type, &tensor_declaration::type);
  };
  if (differ(variant.text.inputs, reference.text.inputs))
    return fault{outcome::invalid, "its inputs are not declared as the task's are"};
  if (differ(variant.text.weights, reference.text.weights))
    return fault{outcome::invalid, "its weights are not declared as the task's are"};
  return std::nullopt;
}

int object_of(const frame& f) {
  return f.descriptors.empty() ? -1 : f.descriptors.front().get();
}

}  // namespace

gpu_referee::gpu_referee(std::unique_ptr<referee_device> device, int64_t memory_bound)
    : device_(std::move(device)), comparer_(*device_), memory_(*device_), memory_bound_(memory_bound) {}

expected<referee_reply> gpu_referee::attach(frame& f) {
  if (f.descriptors.size() != 2) return fail(errc::corrupt, "attach carries a runner's channel and its pidfd");
  runner_.emplace(*device_, std::move(f.descriptors[0]), std::move(f.descriptors[1]));
  return referee_reply{};
}

expected<gpu_referee::open_task_state*> gpu_referee::current() {
  if (tasks_.empty()) return fail(errc::invalid_argument, "no task is open");
  return &tasks_.front();
}

expected<void> gpu_referee::forget_old_tasks() {
  int64_t bytes = 0;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    bytes += it->pool->bytes();
    const bool old = it != tasks_.begin() &&
                     (bytes > memory_bound_ || std::distance(tasks_.begin(), it) >= static_cast<int>(tasks_kept));
    if (old) bytes -= it->pool->bytes();
    it = old ? tasks_.erase(it) : std::next(it);
  }
  memory_.trim(std::max<int64_t>(memory_bound_ - bytes, 0));
  return device_->synchronise();
}

expected<referee_reply> gpu_referee::open(const frame& f) {
  CUDAL1_TRY(const auto request, record_of<open_task_request>(f));
  const auto found = std::ranges::find(tasks_, request.task, &open_task_state::text);
  if (found != tasks_.end()) {
    tasks_.splice(tasks_.begin(), tasks_, found);
    if (request.renew) {
      tasks_.front().pool->renew();
      tasks_.front().known = {};
    }
  } else {
    CUDAL1_TRY(task t, read_task(request.task, "cuda"));
    CUDAL1_TRY(auto contents, weight_contents::map(t, f.descriptors));
    CUDAL1_TRY(auto pool, gpu_draw_pool::open(std::move(t), std::move(contents), memory_, comparer_, memory_bound_,
                                              [this, text = request.task] { forget_tasks_but(text); }));
    auto& state = tasks_.emplace_front();
    state.text = request.task;
    state.pool = std::move(pool);
  }
  CUDAL1_CHECK(forget_old_tasks());
  return referee_reply{};
}

void gpu_referee::forget_tasks_but(const std::string& text) {
  tasks_.remove_if([&](const open_task_state& t) { return t.text != text; });
  memory_.trim(0);
  if (runner_) runner_->let_go();
  device_->give_back();
}

expected<referee_reply> gpu_referee::forget_tasks() {
  CUDAL1_CHECK(device_->synchronise());
  forget_tasks_but("");
  return referee_reply{};
}

gpu_checker gpu_referee::checker_of(open_task_state& state) {
  return gpu_checker(*state.pool, state.known, *device_, comparer_);
}

expected<void> gpu_referee::begin(const gpu_call_limits& limits) {
  if (!runner_ || runner_->ended()) return fail(errc::infrastructure, "no runner is attached to the GPU's referee");
  runner_->begin_request(limits);
  return {};
}

// One variant comes in several requests.
expected<const checked_program*> gpu_referee::program_of(const variant_text& variant) {
  if (!last_ || last_program_ != variant.program) {
    last_.reset();
    CUDAL1_TRY(last_, check_program_text(variant.program));
    last_program_ = variant.program;
  }
  return &*last_;
}

expected<void> gpu_referee::load_reference(open_task_state& state) {
  const task& t = state.pool->of();
  if (const auto loaded = runner_->load(resident_program::reference, t.reference, -1, t.id); !loaded)
    return fail(errc::infrastructure, "the task's own program in its runner: {}", loaded.error().message);
  return {};
}

expected<void> gpu_referee::load_variant(open_task_state& state, const variant_text& variant, const frame& f,
                                         bool anew) {
  CUDAL1_TRY(const auto* const program, program_of(variant));
  if (auto problem = declaration_problem(*program, state.pool->of().reference))
    return runner_->refuse(std::move(*problem));
  if (!anew && runner_->holds_variant(variant.key)) return {};
  return runner_->load(resident_program::variant, *program, object_of(f), variant.key);
}

void gpu_referee::note_end(referee_reply& reply) const {
  if (runner_->lost())
    (runner_->faulty() == resident_program::variant ? reply.variant_runner_lost : reply.reference_runner_lost) = true;
  reply.runner_ended = runner_->ended();
}

expected<referee_reply> gpu_referee::check(const frame& f) {
  CUDAL1_TRY(const auto request, record_of<check_request>(f));
  CUDAL1_TRY(auto* const state, current());
  CUDAL1_CHECK(begin({request.plan.call_limit_ms, request.plan.memory_limit_bytes}));
  referee_reply reply;
  if (const auto loaded = load_variant(*state, request.variant, f, true); loaded) {
    auto checks = checker_of(*state);
    CUDAL1_TRY(reply.check, checks.check(*runner_, request.variant.key, request.plan));
  } else if (loaded.error().code != errc::variant_fault) {
    return tl::unexpected<error>(loaded.error());
  }
  reply.check.problem = runner_->problem();
  note_end(reply);
  return reply;
}

expected<referee_reply> gpu_referee::check_pool(const frame& f) {
  CUDAL1_TRY(const auto request, record_of<check_pool_request>(f));
  CUDAL1_TRY(auto* const state, current());
  auto checks = checker_of(*state);
  referee_reply reply;
  reply.unchecked = checks.unchecked(request);
  if (request.only_count || reply.unchecked == 0) return reply;
  CUDAL1_CHECK(begin({request.plan.call_limit_ms, request.plan.memory_limit_bytes}));
  // The variant that was just checked or timed need not be loaded again for a few calls more.
  if (const auto loaded = load_variant(*state, request.variant, f, false); loaded) {
    CUDAL1_TRY(reply.check, checks.check_pool(*runner_, request));
  } else if (loaded.error().code != errc::variant_fault) {
    return tl::unexpected<error>(loaded.error());
  }
  reply.check.problem = runner_->problem();
  note_end(reply);
  reply.unchecked = checks.unchecked(request);
  return reply;
}

expected<referee_reply> gpu_referee::time_fork(const frame& f) {
  CUDAL1_TRY(const auto request, record_of<time_fork_request>(f));
  CUDAL1_TRY(auto* const state, current());
  CUDAL1_CHECK(begin({request.plan.call_limit_ms, request.plan.memory_limit_bytes}));
  // A fork is a fresh load of both: other addresses, another capture.
  CUDAL1_CHECK(load_reference(*state));
  referee_reply reply;
  if (const auto loaded = load_variant(*state, request.variant, f, true); loaded) {
    auto checks = checker_of(*state);
    gpu_call_timer timer(*state->pool, checks, state->known);
    CUDAL1_TRY(reply.timing, timer.time(*runner_, request));
  } else if (loaded.error().code != errc::variant_fault) {
    return tl::unexpected<error>(loaded.error());
  }
  reply.timing.problem = runner_->problem();
  note_end(reply);
  return reply;
}

expected<referee_reply> gpu_referee::answer(frame& f) {
  switch (f.type) {
    case frame_type::attach:
      return attach(f);
    case frame_type::open_task:
      return open(f);
    case frame_type::check:
      return check(f);
    case frame_type::check_pool:
      return check_pool(f);
    case frame_type::time_fork:
      return time_fork(f);
    case frame_type::forget_tasks:
      return forget_tasks();
    default:
      return fail(errc::corrupt, "the referee of a GPU does not take a {} frame", enum_name(f.type));
  }
}

namespace {

expected<std::unique_ptr<gpu_referee>> start(const worker_settings& settings) {
  CUDAL1_TRY(auto device, make_gpu_device(settings.cuda_device));
  CUDAL1_TRY(const device_room room, device->room());
  return std::make_unique<gpu_referee>(std::move(device), std::max(room.free / share_of_memory, least_memory));
}

}  // namespace

int run_cuda_referee(const worker_settings& settings, int socket, int zygote) {
  auto self = start(settings);
  if (!self) {
    (void)send_failure(socket, self.error(), deadline_in(answer_limit));
    return exit_broken;
  }
  confinement_options options{.role = confined_role::referee, .expected_parent = zygote};
  options.writable = gpu_device_files();
  const auto prepared = confinement::prepare(options);
  if (!prepared) return exit_broken;
  if (prepared->enter().failed() != nullptr && !settings.allow_weak_confinement) return exit_confinement;
  for (;;) {
    spin_until_readable(socket, awake_for);
    auto f = receive_frame(socket, deadline_in(patience));
    if (!f) return f.error().code == errc::not_found ? exit_orderly : exit_broken;
    const auto reply = (*self)->answer(*f);
    f->descriptors.clear();
    const auto sent = reply ? send_record(socket, frame_type::done, *reply, deadline_in(answer_limit))
                            : send_failure(socket, reply.error(), deadline_in(answer_limit));
    if (!sent) return exit_broken;
  }
}

}  // namespace cudal1
