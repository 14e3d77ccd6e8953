// The referee's end of one runner: it loads a program, gives it weights and draws, makes it run, and reads its outputs
// from memory that the runner can write at any time. Nothing that the runner reports is used unchecked.
#pragma once

#include <chrono>
#include <ctime>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sandbox/cpu/referee/cpu_tensors.hpp"
#include "sandbox/cpu/referee/input_window.hpp"
#include "sandbox/cpu/runner/cpu_runner_messages.hpp"
#include "sandbox/evaluation_records.hpp"
#include "sandbox/isolation/control_block.hpp"
#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/shared_memory.hpp"

namespace cudal1 {

struct cpu_link_options {
  double call_ms = 2000;
  int64_t memory_bytes = 0;
  bool sleeps = false;  // the referee sleeps during a timed call, whose time then includes waking it up
};

class cpu_runner_link {
 public:
  // `descriptors`: channel, control block, arena, pidfd.
  // `window` must outlive the link.
  static expected<cpu_runner_link> attach(std::span<unique_fd> descriptors, const cpu_link_options& options,
                                          input_window& window);

  // Each of these fails with errc::variant_fault if the runner ended or exceeded its time limit; problem() or lost()
  // has the reason. The variant is not to blame for other errors.
  // `p` must outlive the link.
  expected<void> load(const checked_program& p, int object);
  // Does nothing if the runner already has these weights.
  expected<void> set_weights(const std::shared_ptr<const drawn_tensors>& weights);
  expected<void> prepare(bool is_timed);
  // Stops it until begin().
  expected<void> hold();
  // The inputs of its call, while it is stopped.
  expected<void> give(const cpu_tensors& inputs);
  void begin();
  expected<void> finish_call();  // untimed
  // Microseconds since begin(), which another thread calls.
  expected<double> finish_timed_call();
  // Processor time that it took for prepare(), up to hold().
  double preparation_us() const { return preparation_us_; }
  int64_t memory_in_use() const;  // of its arena, as the system counts it
  expected<void> check_guards();
  // The outputs of the last call. `given` returns the referee's own mapping of the inputs or the weights that the
  // runner was given; it is called only if an output lies there.
  using given_tensors = std::function<expected<const mapped_tensors*>(output_home)>;
  expected<std::vector<output_memory>> outputs(const given_tensors& given);

  // Call it after reading the outputs: a fault if they changed after the runner had reported `done`.
  expected<void> confirm_outputs();

  const std::optional<fault>& problem() const { return problem_; }
  bool lost() const { return lost_; }  // the runner ended and left no record
  const checked_program& running() const { return *program_; }
  double setup_ms() const { return setup_ms_; }
  double load_ms() const { return load_ms_; }

 private:
  cpu_runner_link() = default;
  expected<runner_reply> ask(frame_type type, const json& body, std::span<const int> descriptors, double limit_ms);
  expected<void> finish(call_state state);
  tl::unexpected<error> ended();
  tl::unexpected<error> overdue(double limit_ms);
  tl::unexpected<error> note_fault(fault f);
  // False if the system refuses, which must not happen. True for a process that has already ended.
  bool signal(int number) const;
  // The runner must not change its outputs after `done`, nor work before the next `go`, so it is stopped. That takes
  // effect with a delay, so some words of its outputs are sampled first.
  expected<void> stop();
  expected<double> processor_time_us() const;
  void sample_outputs();
  void go_on();
  std::string words() const;
  bool wait_for_end(std::chrono::milliseconds limit) const;
  control_block& control() const { return *reinterpret_cast<control_block*>(page_.data()); }

  unique_fd channel_, pidfd_, status_, arena_file_;
  clockid_t processor_clock_ = 0;
  input_window* window_ = nullptr;
  mapping page_, arena_;
  const checked_program* program_ = nullptr;
  cpu_link_options limits_;
  std::shared_ptr<const drawn_tensors> weights_;
  std::optional<fault> problem_;
  bool lost_ = false;
  bool stopped_ = false;
  struct seen_word {
    int64_t offset = 0;  // in the arena
    uint64_t value = 0;
  };
  std::vector<seen_word> seen_;
  std::vector<output_place> places_;  // as it named them with `done`
  double setup_ms_ = 0, load_ms_ = 0;
  double preparation_us_ = 0;
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace cudal1
