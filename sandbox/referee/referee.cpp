#include "sandbox/referee/referee.hpp"

#include <algorithm>
#include <array>

#include "sandbox/isolation/confine.hpp"
#include "sandbox/isolation/zygote.hpp"
#include "sandbox/program/memory_need.hpp"
#include "sandbox/referee/call_timer.hpp"

namespace cudal1 {
namespace {

constexpr std::chrono::hours idle_timeout{24 * 365};
constexpr std::chrono::seconds answer_limit{60};

// The memory of a draw is laid out by the task's declarations, so a variant must declare the same.
std::optional<fault> declaration_problem(const checked_program& variant, const checked_program& reference) {
  const auto differ = [](const std::vector<tensor_declaration>& a, const std::vector<tensor_declaration>& b) {
    return !std::ranges::equal(a, b, {}, &tensor_declaration::type, &tensor_declaration::type);
  };
  if (differ(variant.text.inputs, reference.text.inputs))
    return fault{outcome::invalid, "its inputs are declared differently from the task's"};
  if (differ(variant.text.weights, reference.text.weights))
    return fault{outcome::invalid, "its weights are declared differently from the task's"};
  return std::nullopt;
}

// Which program's runner was lost, for the session, which knows how the process ended.
void report_lost_runner(const program_runners& runners, referee_reply& reply) {
  if (runners.lost())
    (runners.faulty() == resident_program::variant ? reply.variant_runner_lost : reply.reference_runner_lost) = true;
  reply.runner_ended = runners.ended();
}

void note_parts(const task& t, const fitted_program& own, timing_report& report) {
  report.reference_parts = own.parts;
  if (own.parts > 1)
    report.notes.push_back(
        fmt::format("the task's own program, whose tensors need {}, was timed in {} parts of its batch, since as a "
                    "whole it does not "
                    "fit the memory of a runner",
                    memory_text(memory_need_of(t.reference).bytes), own.parts));
}

constexpr std::array only_variant{resident_program::variant};
constexpr std::array both_programs{resident_program::reference, resident_program::variant};

}  // namespace

expected<referee::open_task_state*> referee::current() {
  if (tasks_.empty()) return fail(errc::invalid_argument, "no task is open");
  return &tasks_.front();
}

expected<void> referee::forget_old_tasks() {
  int64_t bytes = 0;
  const auto most = static_cast<std::ptrdiff_t>(backend_->traits().tasks_kept);
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    bytes += it->pool->bytes();
    const bool old = it != tasks_.begin() && (bytes > memory_bound_ || std::distance(tasks_.begin(), it) >= most);
    if (old) bytes -= it->pool->bytes();
    it = old ? tasks_.erase(it) : std::next(it);
  }
  backend_->trim(std::max<int64_t>(memory_bound_ - bytes, 0));
  return backend_->synchronise();
}

expected<referee_reply> referee::open(const frame& f) {
  CUDAL1_TRY(const auto request, record_of<open_task_request>(f));
  const auto found = std::ranges::find(tasks_, request.task, &open_task_state::text);
  if (found != tasks_.end()) {
    tasks_.splice(tasks_.begin(), tasks_, found);
    if (request.renew) {
      tasks_.front().pool->renew();
      tasks_.front().known = {};
    }
  } else {
    CUDAL1_TRY(task t, read_task(request.task, backend_->traits().kind));
    CUDAL1_TRY(auto contents, weight_contents::map(t, f.descriptors));
    CUDAL1_TRY(auto pool, draw_pool::open(std::move(t), std::move(contents), *backend_, memory_bound_,
                                          [this, text = request.task] { forget_tasks_but(text); }));
    auto& state = tasks_.emplace_front();
    state.text = request.task;
    state.pool = std::move(pool);
  }
  CUDAL1_CHECK(forget_old_tasks());
  referee_reply reply;
  reply.reference_ms = tasks_.front().pool->reference_ms();
  return reply;
}

void referee::forget_tasks_but(const std::string& text) {
  tasks_.remove_if([&](const open_task_state& t) { return t.text != text; });
  backend_->release_memory();
}

expected<referee_reply> referee::forget_tasks() {
  CUDAL1_CHECK(backend_->synchronise());
  forget_tasks_but("");
  return referee_reply{};
}

// Caches the last program, because one variant comes in several requests.
expected<const checked_program*> referee::program_of(const variant_text& variant) {
  if (!last_ || last_program_ != variant.program) {
    last_.reset();
    CUDAL1_TRY(last_, check_program_text(variant.program));
    last_program_ = variant.program;
  }
  return &*last_;
}

expected<void> referee::load_variant(open_task_state& state, const variant_text& variant, const request_runners& given,
                                     residency wanted) {
  CUDAL1_TRY(const auto* const program, program_of(variant));
  program_runners& runners = *given.runners;
  if (auto problem = declaration_problem(*program, state.pool->of().reference))
    return runners.refuse(std::move(*problem));
  if (wanted == residency::keep_loaded && runners.holds_variant(variant.key)) return {};
  return runners.load(resident_program::variant, *program, given.object, variant.key);
}

expected<referee_reply> referee::check(frame& f) {
  CUDAL1_TRY(const auto request, record_of<check_request>(f));
  CUDAL1_TRY(auto* const state, current());
  CUDAL1_TRY(const auto given,
             backend_->runners_of(f, only_variant, {request.plan.call_limit_ms, request.plan.memory_limit_bytes}));
  referee_reply reply;
  if (const auto loaded = load_variant(*state, request.variant, given, residency::load_anew); loaded) {
    auto checks = checker_of(*state);
    CUDAL1_TRY(reply.check, checks.check(*given.runners, request.variant.key, request.plan));
  } else if (loaded.error().code != errc::variant_fault) {
    return tl::unexpected<error>(loaded.error());
  }
  reply.check.problem = given.runners->problem();
  report_lost_runner(*given.runners, reply);
  return reply;
}

expected<referee_reply> referee::check_pool(frame& f) {
  CUDAL1_TRY(const auto request, record_of<check_pool_request>(f));
  CUDAL1_TRY(auto* const state, current());
  auto checks = checker_of(*state);
  referee_reply reply;
  reply.unchecked = checks.unchecked(request);
  if (request.only_count || reply.unchecked == 0) return reply;
  CUDAL1_TRY(const auto given,
             backend_->runners_of(f, only_variant, {request.plan.call_limit_ms, request.plan.memory_limit_bytes}));
  // The variant that was just checked or timed need not be loaded again for a few more calls.
  if (const auto loaded = load_variant(*state, request.variant, given, residency::keep_loaded); loaded) {
    CUDAL1_TRY(reply.check, checks.check_pool(*given.runners, request));
  } else if (loaded.error().code != errc::variant_fault) {
    return tl::unexpected<error>(loaded.error());
  }
  reply.check.problem = given.runners->problem();
  report_lost_runner(*given.runners, reply);
  reply.unchecked = checks.unchecked(request);
  return reply;
}

expected<const fitted_program*> referee::timed_reference(open_task_state& state, int64_t bytes) {
  bytes = std::min(bytes, state.most_timed_bytes);
  if (!state.timed || state.timed_bytes != bytes) {
    auto fitted = fit_in_parts(state.pool->of().reference, bytes);
    if (!fitted)
      return fail(errc::unsupported,
                  "the task's own program, beside which variants are timed, does not fit a runner: {}; "
                  "verification.memory_limit_mb, on a GPU device.gpu_memory_limit_mb, allows it more memory",
                  fitted.error().message);
    state.timed = std::move(*fitted);
    state.timed_bytes = bytes;
  }
  return &*state.timed;
}

expected<referee_reply> referee::time_fork(frame& f) {
  CUDAL1_TRY(const auto request, record_of<time_fork_request>(f));
  CUDAL1_TRY(auto* const state, current());
  CUDAL1_TRY(const auto* const variant, program_of(request.variant));
  CUDAL1_TRY(const auto given,
             backend_->runners_of(f, both_programs, {request.plan.call_limit_ms, request.plan.memory_limit_bytes}));
  program_runners& runners = *given.runners;
  CUDAL1_TRY(const int64_t bytes, runners.tensor_bytes_beside(*variant));
  CUDAL1_TRY(const auto* const own, timed_reference(*state, bytes));
  // A fork loads both programs afresh: other addresses, another capture.
  if (const auto loaded = runners.load(resident_program::reference, own->what, -1, own->what.id); !loaded)
    return fail(errc::infrastructure, "the task's own program could not be loaded in its runner: {}",
                loaded.error().message);
  referee_reply reply;
  if (const auto loaded = load_variant(*state, request.variant, given, residency::load_anew); loaded) {
    auto checks = checker_of(*state);
    call_timer timer(*state->pool, checks, state->known);
    auto timed = timer.time(runners, request);
    // The next attempt has it in more parts.
    if (!timed && runners.faulty() == resident_program::reference && runners.problem() &&
        runners.problem()->kind == outcome::out_of_memory)
      state->most_timed_bytes = memory_need_of(own->what).bytes / 2;
    CUDAL1_TRY(reply.timing, std::move(timed));
    note_parts(state->pool->of(), *own, reply.timing);
  } else if (loaded.error().code != errc::variant_fault) {
    return tl::unexpected<error>(loaded.error());
  }
  reply.timing.problem = runners.problem();
  report_lost_runner(runners, reply);
  return reply;
}

expected<referee_reply> referee::answer(frame& f) {
  switch (f.type) {
    case frame_type::attach:
      CUDAL1_CHECK(backend_->attach(f));
      return referee_reply{};
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
      return fail(errc::corrupt, "a referee does not take a {} frame", enum_name(f.type));
  }
}

int serve_referee(expected<std::unique_ptr<referee>> made, const worker_settings& settings, int socket, int zygote,
                  const serving_options& options) {
  if (!made) {
    (void)send_failure(socket, made.error(), deadline_in(answer_limit));
    return exit_broken;
  }
  confinement_options confined{.role = confined_role::referee, .expected_parent = zygote};
  confined.writable = options.writable_files;
  const auto prepared = confinement::prepare(confined);
  if (!prepared) return exit_broken;
  if (prepared->enter().failed() != nullptr && !settings.allow_weak_confinement) return exit_confinement;
  for (;;) {
    if (options.awake.count() > 0) spin_until_readable(socket, options.awake);
    auto f = receive_frame(socket, deadline_in(idle_timeout));
    if (!f) return f.error().code == errc::not_found ? exit_orderly : exit_broken;
    const auto reply = (*made)->answer(*f);
    f->descriptors.clear();  // closes the runners' channels, so that the runners exit
    const auto sent = reply ? send_record(socket, frame_type::done, *reply, deadline_in(answer_limit))
                            : send_failure(socket, reply.error(), deadline_in(answer_limit));
    if (!sent) return exit_broken;
  }
}

}  // namespace cudal1
