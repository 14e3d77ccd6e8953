// The referee of a GPU: trusted, without network and without new programs. It makes draws and answers in memory of the
// GPU, has a runner call programs on them, and compares.
#pragma once

#include <list>
#include <memory>
#include <optional>

#include "sandbox/cuda/referee/gpu_checker.hpp"
#include "sandbox/isolation/zygote_messages.hpp"
#include "sandbox/referee/referee_messages.hpp"

namespace cudal1 {

// Answers its session's frames, one at a time. The requests that run something need a runner that `attach` gave.
class gpu_referee {
 public:
  // `memory_bound`: of the draws of all tasks together, bytes.
  gpu_referee(std::unique_ptr<referee_device> device, int64_t memory_bound);
  expected<referee_reply> answer(frame& f);

 private:
  // One task's draws and what the variants gave on them.
  struct open_task_state {
    std::string text;  // as the session sent it
    std::unique_ptr<gpu_draw_pool> pool;
    known_outputs known;
  };
  expected<referee_reply> attach(frame& f);
  expected<referee_reply> open(const frame& f);
  expected<referee_reply> check(const frame& f);
  expected<referee_reply> check_pool(const frame& f);
  expected<referee_reply> time_fork(const frame& f);
  expected<referee_reply> forget_tasks();

  expected<open_task_state*> current();
  expected<void> forget_old_tasks();
  // Their memory goes back to the device, and the runner's mappings of it.
  void forget_tasks_but(const std::string& text);
  gpu_checker checker_of(open_task_state& state);
  expected<const checked_program*> program_of(const variant_text& variant);
  // The runner, for one request, and what is resident there. errc::variant_fault where the variant cannot be loaded:
  // runner_->problem() says why.
  expected<void> begin(const gpu_call_limits& limits);
  expected<void> load_reference(open_task_state& state);
  // Without `anew` one that is resident stays as it is.
  expected<void> load_variant(open_task_state& state, const variant_text& variant, const frame& f, bool anew);
  void note_end(referee_reply& reply) const;

  std::unique_ptr<referee_device> device_;
  output_comparer comparer_;
  tensor_memory memory_;
  int64_t memory_bound_;              // of draws and what they left
  std::list<open_task_state> tasks_;  // the current one comes first
  std::optional<gpu_runner_link> runner_;
  std::string last_program_;  // the text that the last one was read from
  std::optional<checked_program> last_;
};

// The rest of a process forked by the zygote; its exit code (roles.hpp). Uses settings.cuda_device.
int run_cuda_referee(const worker_settings& settings, int socket, int zygote);

}  // namespace cudal1
