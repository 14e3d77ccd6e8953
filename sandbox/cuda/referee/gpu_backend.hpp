// The referee's backend of a GPU: draws in device memory that the runner maps, the task's own program and the
// comparison on the device, and one runner for many requests. It works on any LibTorch device.
#pragma once

#include <memory>

#include "sandbox/cuda/referee/compare_on_device.hpp"
#include "sandbox/cuda/referee/gpu_runner_link.hpp"
#include "sandbox/cuda/referee/tensor_memory.hpp"

namespace cudal1 {

class gpu_backend final : public referee_backend {
 public:
  explicit gpu_backend(std::unique_ptr<referee_device> device)
      : device_(std::move(device)), comparer_(*device_), memory_(*device_) {}

  const backend_traits& traits() const override { return traits_; }
  expected<std::shared_ptr<drawn_tensors>> make_tensors(const std::vector<tensor_type>& types,
                                                        tensor_role role) override;
  expected<void> fill(drawn_tensors& tensors, std::size_t index, const tensor_draw& how) override;
  void trim(int64_t most_spare_bytes) override { memory_.trim(most_spare_bytes); }
  int interpreter_device() const override;
  expected<std::shared_ptr<const expected_outputs>> compute(reference_program& program, const draw& d,
                                                            const tolerances& allowed) override;
  expected<std::shared_ptr<const rounding_distances>> find_rounding(reference_program& program, const draw& d) override;
  expected<std::vector<compared_call>> compare(const checked_program& variant, std::span<const kept_call> calls,
                                               const std::vector<bool>& comparable) override;
  expected<void> allow_rounding(const checked_program& variant, const kept_call& call, std::size_t output,
                                output_check& check) override;
  expected<void> attach(frame& f) override;
  expected<request_runners> runners_of(frame& f, std::span<const resident_program> programs,
                                       const call_limits& limits) override;
  expected<void> synchronise() override { return device_->synchronise(); }
  int64_t reference_bytes() override;
  void release_memory() override;

  referee_device& device() { return *device_; }
  tensor_memory& memory() { return memory_; }

 private:
  // The fingerprints and comparisons that were started for one call's outputs.
  struct started_call;
  expected<started_call> start(const checked_program& variant, const kept_call& call,
                               const std::vector<bool>& comparable);

  backend_traits traits_{.kind = "cuda",
                         .tasks_kept = 32,
                         .fewest_timing_draws = 10,
                         .has_device_clock = true,
                         .order_of_sums_varies = true};
  std::unique_ptr<referee_device> device_;
  output_comparer comparer_;
  tensor_memory memory_;
  std::shared_ptr<gpu_runner_link> runner_;
};

}  // namespace cudal1
