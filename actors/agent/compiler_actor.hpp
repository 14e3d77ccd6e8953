// The compilers of a node: a front that hands each program to a free worker, and the workers, each in a thread of its
// own. kernel_compiler handles hostile sources (a confined child process with limits). A program that takes longer than
// a first limit is stopped and compiled again, one of them at a time, while a worker is left for the others or none
// waits: else a few hostile sources would hold all workers for the whole limit, again and again.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "actors/messages/interfaces.hpp"
#include "sandbox/device/compiler.hpp"

namespace cudal1 {

struct compiler_worker_state {
  static constexpr const char* name = "compiler worker";
  std::shared_ptr<kernel_compiler> compiler;

  expected<shared_code> compile(const message::compile& m);
};

// To be spawned detached.
compiler_actor::behavior_type run_compiler_worker(compiler_actor::stateful_pointer<compiler_worker_state> self,
                                                  std::shared_ptr<kernel_compiler> compiler);

struct compiler_state {
  static constexpr const char* name = "compiler";
  compiler_actor::pointer self = nullptr;
  std::vector<compiler_actor> idle;
  struct job {
    message::compile what;
    caf::typed_response_promise<shared_code> promise;
    bool is_slow = false;  // it took longer than the first limit
  };
  using jobs = std::deque<std::shared_ptr<job>>;
  jobs waiting, slow;
  bool slow_runs = false;
  double first_limit_s = 0;  // 0: none
  duration timeout{0};

  caf::result<shared_code> compile(const message::compile& m);
  void hand_out();
  jobs& queue_of_next();
  void start(const compiler_actor& worker, const std::shared_ptr<job>& j);
  void finish(const compiler_actor& worker);
};

struct compiler_limits {
  double first_s = 0;   // of a program's first compilation; its second has the compiler's own. 0: none
  duration timeout{0};  // of a request to a worker: longer than any compilation may take
};
// Spawns its workers.
compiler_actor::behavior_type run_compiler(compiler_actor::stateful_pointer<compiler_state> self,
                                           std::shared_ptr<kernel_compiler> compiler, int workers,
                                           compiler_limits limits);

}  // namespace cudal1
