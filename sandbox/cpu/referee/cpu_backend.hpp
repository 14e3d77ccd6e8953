// The referee's backend of `cpu`: draws in sealed shared memory, the task's own program in this process, comparison on
// the host, and fresh runners with each request.
#pragma once

#include "sandbox/cpu/referee/core_control.hpp"
#include "sandbox/cpu/referee/cpu_runners.hpp"
#include "sandbox/cpu/referee/cpu_tensors.hpp"

namespace cudal1 {

// Of the machine, that this process may use.
int64_t memory_of_referee(const worker_settings& settings);

class cpu_backend final : public referee_backend {
 public:
  static expected<std::unique_ptr<cpu_backend>> create(const worker_settings& settings);

  const backend_traits& traits() const override { return traits_; }
  expected<std::shared_ptr<drawn_tensors>> make_tensors(const std::vector<tensor_type>& types,
                                                        tensor_role role) override;
  expected<void> fill(drawn_tensors& tensors, std::size_t index, const tensor_draw& how) override;
  expected<void> seal(drawn_tensors& tensors) override;
  expected<std::shared_ptr<const expected_outputs>> compute(reference_program& program, const draw& d,
                                                            const tolerances& allowed) override;
  expected<std::shared_ptr<const rounding_distances>> find_rounding(reference_program& program, const draw& d) override;
  expected<std::vector<compared_call>> compare(const checked_program& variant, std::span<const kept_call> calls,
                                               const std::vector<bool>& comparable) override;
  expected<void> allow_rounding(const checked_program& variant, const kept_call& call, std::size_t output,
                                output_check& check) override;
  expected<request_runners> runners_of(frame& f, std::span<const resident_program> programs,
                                       const call_limits& limits) override;
  int64_t reference_bytes() override;
  void release_memory() override;

 private:
  explicit cpu_backend(core_control cores) : cores_(std::move(cores)) {}

  backend_traits traits_{.kind = "cpu", .tasks_kept = 8, .fewest_timing_draws = 4};
  mapping arena_;
  core_control cores_;
  cpu_runners::input_windows windows_;
};

}  // namespace cudal1
