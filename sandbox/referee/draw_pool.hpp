// The draws of one task with their expected outputs: made when first asked for, kept under a bound, and renewed. A draw
// that had to go is made again from its seed, the same as before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "sandbox/evaluation.hpp"
#include "sandbox/referee/referee_backend.hpp"
#include "sandbox/referee/weight_contents.hpp"

namespace cudal1 {

// Of an error in making draws or running the task's own program, which is no variant's.
inline errc code_of_ours(const error& e) {
  return e.code == errc::unsupported ? e.code : errc::infrastructure;
}

class draw_pool {
 public:
  // Also makes the first draw, so that a task that cannot be computed is an error of opening it.
  // `evict_others` frees the device's memory of all that is not this pool's or that nobody holds any more: called where
  // there is none for a draw.
  static expected<std::unique_ptr<draw_pool>> open(
      task t, weight_contents contents, referee_backend& backend, int64_t memory_bound,
      std::function<void()> evict_others = [] {});

  const task& of() const { return task_; }
  const reference_program& reference() const { return reference_; }

  // The tolerances that outputs are compared by from now on. Draws whose expected outputs were computed for others are
  // made again.
  void judge_by(const tolerances& allowed);
  const tolerances& allowed() const { return allowed_; }

  // The draw of that kind and seed; with seed 0 the pool's own `ordinal`-th of that kind. Calls are timed on the first
  // `declared` ones. errc::unsupported: the device has not the memory for it, with nothing else in it.
  expected<std::shared_ptr<const draw>> get(const draw_request& request, int ordinal);
  // The seed of that draw, which is chosen now if it was not yet.
  uint64_t seed(const draw_request& request, int ordinal);
  // How many of those a fork of so many pairs walks through. They may be more than fit the bound: then they are made
  // again and again.
  int draws_of_fork(int pairs) const { return std::clamp(pairs + 1, 2, most_timing_draws_); }
  // How many draws may be held at the same time, at least one.
  int draws_at_once() const;
  // Memory of its draws.
  int64_t bytes() const { return bytes_; }

  // The next `declared` draws, which calls are timed on, are ones that nobody has seen, on other weights (where these
  // are drawn); so are those of the other kinds as often as the backend's traits say.
  void renew();

 private:
  draw_pool(task t, weight_contents contents, reference_program reference, referee_backend& backend,
            int64_t memory_bound, std::function<void()> evict_others);
  expected<std::shared_ptr<const draw>> make(const draw_request& request);
  // make(), with what else is in the device's memory given up for it where it must be.
  expected<std::shared_ptr<const draw>> make_evicting(const draw_request& request);
  expected<std::shared_ptr<const drawn_tensors>> make_tensors(tensor_role role, const draw_request& request);
  void forget_if(const std::function<bool(const draw&)>& goes);
  // The oldest draws go until so many bytes more are within the bound, but for so many draws.
  void make_room(int64_t more, std::size_t kept);
  // What is spare and the draws together are within the bound.
  void trim_spare();

  task task_;
  weight_contents contents_;
  reference_program reference_;
  referee_backend& backend_;
  int64_t memory_bound_ = 0, bytes_ = 0, draw_bytes_ = 0;
  int most_timing_draws_ = 8;
  std::function<void()> evict_others_;
  int renewals_ = 0;
  tolerances allowed_;
  std::vector<tensor_type> input_types_, weight_types_;
  std::map<std::pair<draw_kind, int>, uint64_t> seeds_;
  uint64_t declared_weight_seed_ = 0;
  std::shared_ptr<const drawn_tensors> declared_weights_;
  std::list<std::shared_ptr<const draw>> draws_;  // the one used last comes first
};

}  // namespace cudal1
