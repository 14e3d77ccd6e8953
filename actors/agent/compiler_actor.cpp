#include "actors/agent/compiler_actor.hpp"

#include <limits>

#include "config/base/stopwatch.hpp"

namespace cudal1 {

expected<shared_code> compiler_worker_state::compile(const message::compile& m) {
  const double seconds = m.seconds > 0 ? m.seconds : std::numeric_limits<double>::infinity();
  CUDAL1_TRY(compiled_code code, compiler->compile(*m.program, seconds));
  return shared_code(std::move(code));
}

compiler_actor::behavior_type run_compiler_worker(compiler_actor::stateful_pointer<compiler_worker_state> self,
                                                  std::shared_ptr<kernel_compiler> compiler) {
  prepare(self);
  auto& s = self->state;
  s.compiler = std::move(compiler);
  return {[&s](const message::compile& m) { return reply_or_error(s.name, [&] { return s.compile(m); }); }};
}

caf::result<shared_code> compiler_state::compile(const message::compile& m) {
  auto promise = self->make_response_promise<shared_code>();
  waiting.push_back(std::make_shared<job>(job{m, promise}));
  hand_out();
  return promise;
}

compiler_state::jobs& compiler_state::queue_of_next() {
  const bool slow_may_start = !slow.empty() && !slow_runs && (idle.size() > 1 || waiting.empty());
  return slow_may_start ? slow : waiting;
}

void compiler_state::hand_out() {
  while (!idle.empty()) {
    jobs& from = queue_of_next();
    if (from.empty()) return;
    const compiler_actor worker = idle.back();
    idle.pop_back();
    auto next = std::move(from.front());
    from.pop_front();
    start(worker, std::move(next));
  }
}

void compiler_state::start(const compiler_actor& worker, const std::shared_ptr<job>& j) {
  const bool was_slow = j->is_slow;
  slow_runs |= was_slow;
  j->what.seconds = was_slow ? 0 : first_limit_s;
  const stopwatch took;
  ask<shared_code>(
      self, worker, timeout, j->what,
      [this, worker, j, was_slow](shared_code& code) {
        j->promise.deliver(std::move(code));
        if (was_slow) slow_runs = false;
        finish(worker);
      },
      [this, worker, j, was_slow, took](error e) {
        if (j->is_slow || first_limit_s == 0 || e.code != errc::timeout || took.ms() < 1e3 * first_limit_s) {
          j->promise.deliver(to_caf(std::move(e)));
        } else {
          j->is_slow = true;
          slow.push_back(j);
        }
        if (was_slow) slow_runs = false;
        finish(worker);
      });
}

void compiler_state::finish(const compiler_actor& worker) {
  idle.push_back(worker);
  hand_out();
}

compiler_actor::behavior_type run_compiler(compiler_actor::stateful_pointer<compiler_state> self,
                                           std::shared_ptr<kernel_compiler> compiler, int workers,
                                           compiler_limits limits) {
  prepare(self);
  auto& s = self->state;
  s.self = self;
  s.first_limit_s = limits.first_s;
  s.timeout = limits.timeout;
  // Linked: if the front or a worker ends, all end.
  for (int i = 0; i < workers; ++i)
    s.idle.push_back(self->spawn<caf::linked + caf::detached>(run_compiler_worker, compiler));
  return {[&s](const message::compile& m) { return s.compile(m); }};
}

}  // namespace cudal1
