// The compilers of a node: a front that hands each program to a free worker, and the workers, each in a thread of its
// own. kernel_compiler handles hostile sources (a confined child process with limits).
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "actors/interfaces.hpp"
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
  };
  std::deque<job> waiting;
  duration timeout{0};

  caf::result<shared_code> compile(const message::compile& m);
  void hand_out();
  void finish(const compiler_actor& worker);
};

// Spawns its workers. `timeout`: longer than a compilation may take.
compiler_actor::behavior_type run_compiler(compiler_actor::stateful_pointer<compiler_state> self,
                                           std::shared_ptr<kernel_compiler> compiler, int workers, duration timeout);

}  // namespace cudal1
