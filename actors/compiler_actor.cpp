#include "actors/compiler_actor.hpp"

namespace cudal1 {

expected<shared_code> compiler_worker_state::compile(const message::compile& m) {
  CUDAL1_TRY(compiled_code code, compiler->compile(*m.program));
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
  waiting.push_back({m, promise});
  hand_out();
  return promise;
}

void compiler_state::hand_out() {
  while (!waiting.empty() && !idle.empty()) {
    const compiler_actor worker = idle.back();
    idle.pop_back();
    job next = std::move(waiting.front());
    waiting.pop_front();
    ask<shared_code>(
        self, worker, timeout, std::move(next.what),
        [this, worker, promise = next.promise](shared_code& code) mutable {
          promise.deliver(std::move(code));
          finish(worker);
        },
        [this, worker, promise = next.promise](error e) mutable {
          promise.deliver(to_caf(std::move(e)));
          finish(worker);
        });
  }
}

void compiler_state::finish(const compiler_actor& worker) {
  idle.push_back(worker);
  hand_out();
}

compiler_actor::behavior_type run_compiler(compiler_actor::stateful_pointer<compiler_state> self,
                                           std::shared_ptr<kernel_compiler> compiler, int workers, duration timeout) {
  prepare(self);
  auto& s = self->state;
  s.self = self;
  s.timeout = timeout;
  // Linked: if the front or a worker ends, all end.
  for (int i = 0; i < workers; ++i)
    s.idle.push_back(self->spawn<caf::linked + caf::detached>(run_compiler_worker, compiler));
  return {[&s](const message::compile& m) { return s.compile(m); }};
}

}  // namespace cudal1
