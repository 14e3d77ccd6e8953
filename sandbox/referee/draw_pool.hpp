// The draws of one task with their expected outputs: made on first use, kept within a memory bound, and renewed. An
// evicted draw is made again from its seed, with the same values.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/referee/referee_backend.hpp"
#include "sandbox/referee/weight_contents.hpp"

namespace cudal1 {

// The code for an error in making draws or running the task's own program, which is not a fault of a variant.
inline errc referee_error_code(const error& e) {
  return e.code == errc::unsupported ? e.code : errc::infrastructure;
}

// Every call of a fork is on a draw that its program has not met since it was loaded: what it might have kept of an
// earlier call is of no use. Each program has one untimed call, `pairs` timed ones, `device_pairs` on the device's
// clock and `warm_pairs` warm ones; the reference is one draw ahead.
struct draws_of_fork {
  int draws = 0, pairs = 0, device_pairs = 0, warm_pairs = 0;
};

class draw_pool {
 public:
  // Also makes the first draw, so that open() fails for a task that cannot be computed. `evict_others` is called when
  // the device is out of memory for a draw: it frees other pools' memory and all memory that is unused.
  static expected<std::unique_ptr<draw_pool>> open(
      task t, weight_contents contents, referee_backend& backend, int64_t memory_bound,
      std::function<void()> evict_others = [] {});

  const task& of() const { return task_; }
  // In parts of the batch where it does not fit the device's memory as a whole.
  const reference_program& reference() const { return reference_; }

  // Sets the tolerances for comparisons. Draws whose expected outputs were computed for others are made again.
  void set_tolerances(const tolerances& allowed);
  const tolerances& allowed() const { return allowed_; }

  // The draw of that kind and seed; with seed 0 the pool's `ordinal`-th of that kind. Calls are timed on the first
  // `declared` ones. errc::unsupported: it does not fit the device's memory even alone.
  expected<std::shared_ptr<const draw>> get(const draw_request& request, int ordinal);
  // That draw, of this pool, with its rounding distances.
  expected<std::shared_ptr<const draw>> with_rounding(std::shared_ptr<const draw> d);
  // The seed of that draw, chosen on first use.
  uint64_t seed(const draw_request& request, int ordinal);
  // How one fork of that plan uses the `declared` draws. If they do not fit the bound, they are made repeatedly.
  draws_of_fork fork_of(const timing_plan& plan) const;
  // How many draws may be held at the same time, at least one.
  int draws_at_once() const;
  int64_t bytes() const { return bytes_; }  // of all draws held
  // The time of a call of the task's own program, in this process: the shortest so far.
  double reference_ms() const { return reference_ms_; }

  // Replaces the `declared` draws, on which calls are timed, by new ones with new weights (where these are drawn). The
  // other kinds are renewed as often as backend_traits::renewals_of_other_kinds says.
  void renew();

 private:
  draw_pool(task t, weight_contents contents, reference_program reference, referee_backend& backend,
            int64_t memory_bound, std::function<void()> evict_others);
  expected<std::shared_ptr<const draw>> make(const draw_request& request);
  // That draw, with the weights that a task has by its specification, if more of the outputs can be compared then.
  expected<std::shared_ptr<draw>> tamed(std::shared_ptr<draw> made);
  // make(), evicting other contents of the device's memory if necessary.
  expected<std::shared_ptr<const draw>> make_evicting(const draw_request& request);
  expected<std::shared_ptr<const drawn_tensors>> make_tensors(tensor_role role, const draw_request& request);
  void forget_if(const std::function<bool(const draw&)>& goes);
  // Evicts the least recently used draws until `more` bytes fit the bound, but keeps `kept` draws.
  void make_room(int64_t more, std::size_t kept);
  // Frees spare memory until it and the draws together are within the bound.
  void trim_spare();

  task task_;
  weight_contents contents_;
  reference_program reference_;
  referee_backend& backend_;
  int64_t memory_bound_ = 0, bytes_ = 0, draw_bytes_ = 0;
  int most_timing_draws_ = 0;
  double reference_ms_ = 0;
  std::function<void()> evict_others_;
  int renewals_ = 0;
  tolerances allowed_;
  std::vector<tensor_type> input_types_, weight_types_;
  std::map<std::pair<draw_kind, int>, uint64_t> seeds_;
  uint64_t declared_weight_seed_ = 0;
  std::shared_ptr<const drawn_tensors> declared_weights_;
  std::list<std::shared_ptr<const draw>> draws_;  // most recently used first
};

}  // namespace cudal1
