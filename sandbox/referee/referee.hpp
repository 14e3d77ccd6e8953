// The referee: trusted, but without network access and unable to start programs. It makes draws and expected outputs,
// calls programs on them in untrusted runners, compares their outputs, and replies to its session.
#pragma once

#include <chrono>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/isolation/zygote_messages.hpp"
#include "sandbox/program/batch_parts.hpp"
#include "sandbox/referee/checker.hpp"

namespace cudal1 {

// Processes its session's frames, one at a time.
class referee {
 public:
  // `memory_bound`: of the draws of all tasks together, in bytes.
  referee(std::unique_ptr<referee_backend> backend, int64_t memory_bound)
      : backend_(std::move(backend)), memory_bound_(memory_bound) {}
  expected<referee_reply> answer(frame& f);

 private:
  // One task's draws, and the variants' outputs on them.
  struct open_task_state {
    std::string text;  // as the session sent it
    std::unique_ptr<draw_pool> pool;
    known_outputs known;
    // The task's own program as variants are timed beside it, and the memory that it was made for.
    std::optional<fitted_program> timed;
    int64_t timed_bytes = 0;
    // Of the memory that a runner has for it: less where it ran out of memory with more.
    int64_t most_timed_bytes = std::numeric_limits<int64_t>::max();
  };
  expected<referee_reply> open(const frame& f);
  expected<referee_reply> check(frame& f);
  expected<referee_reply> check_pool(frame& f);
  expected<referee_reply> time_fork(frame& f);
  expected<referee_reply> forget_tasks();

  expected<open_task_state*> current();
  expected<void> forget_old_tasks();
  // Frees the memory of their draws, including the runner's mappings of it.
  void forget_tasks_but(const std::string& text);
  checker checker_of(open_task_state& state) { return checker(*state.pool, state.known, *backend_); }
  // In as few parts of the batch as fit beside the variant. errc::unsupported if it does not fit in parts either.
  static expected<const fitted_program*> timed_reference(open_task_state& state, int64_t bytes);
  expected<const checked_program*> program_of(const variant_text& variant);
  enum class residency { load_anew, keep_loaded };
  // errc::variant_fault if the variant cannot be loaded: problem() of the runners says why.
  expected<void> load_variant(open_task_state& state, const variant_text& variant, const request_runners& given,
                              residency wanted);

  std::unique_ptr<referee_backend> backend_;
  int64_t memory_bound_;              // of draws and spare memory
  std::list<open_task_state> tasks_;  // the current one comes first
  std::string last_program_;          // the text of last_
  std::optional<checked_program> last_;
};

struct serving_options {
  std::vector<std::string> writable_files;  // remain writable after the process is locked down
  std::chrono::microseconds awake{0};       // how long it polls for the next request before it sleeps
};

// The main function of a referee process forked by the zygote. Locks the process down first. Returns the exit code
// (zygote.hpp).
int serve_referee(expected<std::unique_ptr<referee>> made, const worker_settings& settings, int socket, int zygote,
                  const serving_options& options);

}  // namespace cudal1
