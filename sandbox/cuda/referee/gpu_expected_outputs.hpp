// The expected outputs of a draw on the referee's device: of the task's own program as LibTorch ships (cuDNN may use
// TensorFloat-32), in strict float32 if that differs, and in float64.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "sandbox/cuda/referee/compare_on_device.hpp"

namespace cudal1 {

// One element per output. Of the strict float32 outputs only the statistics are kept.
struct gpu_expected_outputs final : expected_outputs {
  std::vector<at::Tensor> shipped, exact;  // contiguous

  static const gpu_expected_outputs& of(const draw& d) { return static_cast<const gpu_expected_outputs&>(*d.expected); }
};

// `inputs` and `weights` of a draw of that kind, in the program's declared types, on the device.
expected<std::shared_ptr<gpu_expected_outputs>> compute_expected_outputs(
    reference_program& program, std::span<const tensor_view> inputs, std::span<const tensor_view> weights,
    draw_kind kind, const tolerances& allowed, referee_device& device, output_comparer& comparer);

expected<std::shared_ptr<rounding_distances>> find_rounding_distances(reference_program& program,
                                                                      std::span<const tensor_view> inputs,
                                                                      std::span<const tensor_view> weights,
                                                                      const gpu_expected_outputs& outputs,
                                                                      referee_device& device);

}  // namespace cudal1
