// The draws of one task with their answers: made when first asked for, kept under a bound, renewed as a whole. A draw
// that had to go is made again from its seed, the same as before.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "sandbox/cpu/referee/cpu_reference.hpp"
#include "sandbox/evaluation.hpp"
#include "sandbox/referee/draws.hpp"
#include "sandbox/referee/weight_contents.hpp"

namespace cudal1 {

struct draw {
  draw_request request;                // with its seed
  unique_fd inputs;                    // sealed, laid out by layout_of
  std::shared_ptr<unique_fd> weights;  // the same; one file for all `declared` draws of a pool
  reference_program::answers answers;
  int64_t bytes = 0;
};

class draw_pool {
 public:
  static expected<std::unique_ptr<draw_pool>> open(task t, weight_contents contents, int64_t memory_bound);

  const task& of() const { return task_; }
  const reference_program& reference() const { return reference_; }
  const std::vector<tensor_type>& input_types() const { return input_types_; }
  const std::vector<tensor_type>& weight_types() const { return weight_types_; }

  // The draw of that kind and seed; with seed 0 the pool's own `ordinal`-th of that kind. Ordinals of `declared` draws
  // below timing_draws() are the ones that calls are timed on. Valid until the next call of get() or renew().
  expected<std::shared_ptr<const draw>> get(const draw_request& request, int ordinal);
  // The seed of that draw, which is chosen now if it was not yet.
  uint64_t seed(const draw_request& request, int ordinal);
  // 8, or as many as fit the bound, and at least 4.
  int timing_draws() const { return timing_draws_; }
  int64_t bytes() const { return bytes_; }
  uint64_t generation() const { return generation_; }

  // Forgets every seed: the next draws are ones that nobody has seen (but for weights that have a content).
  void renew();

 private:
  draw_pool(task t, weight_contents contents, reference_program reference, int64_t memory_bound);
  expected<std::shared_ptr<draw>> make(const draw_request& request);
  expected<unique_fd> make_file(tensor_role role, const draw_request& request) const;
  void trim();

  task task_;
  weight_contents contents_;
  reference_program reference_;
  int64_t memory_bound_ = 0, bytes_ = 0;
  int timing_draws_ = 8;
  uint64_t generation_ = 0;
  std::vector<tensor_type> input_types_, weight_types_;
  std::map<std::pair<draw_kind, int>, uint64_t> seeds_;
  uint64_t declared_weight_seed_ = 0;
  std::shared_ptr<unique_fd> declared_weights_;
  std::list<std::shared_ptr<draw>> draws_;  // the one used last comes first
};

}  // namespace cudal1
