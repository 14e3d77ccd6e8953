// The task's own program on the referee's device: as LibTorch ships (cuDNN may use TensorFloat-32), strictly in
// float32, and in float64. A program without a step that cuDNN computes is strict as it ships, and runs once for both.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "sandbox/cuda/referee/compare_on_device.hpp"
#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// Of one draw, an element for each output. What strict float32 gives is kept in the figures alone.
struct draw_answers {
  std::vector<at::Tensor> eager, exact;  // contiguous
  std::vector<answer_figures> figures;
  int64_t bytes = 0;
};

class answering_programs {
 public:
  static expected<answering_programs> load(const task& t, referee_device& device);

  // `inputs` and `weights` in the program's declared types, on the device.
  expected<draw_answers> run(std::span<const tensor_view> inputs, std::span<const tensor_view> weights,
                             const tolerances& allowed, output_comparer& comparer);

  const std::vector<tensor_type>& output_types() const { return eager_.output_types; }
  const std::vector<tensor_type>& exact_types() const { return exact_.output_types; }
  // Whether TensorFloat-32 may make a difference to it.
  bool strict_differs() const { return strict_differs_; }

 private:
  // One program.
  struct side {
    std::unique_ptr<interpreter> run;
    std::vector<tensor_type> input_types, weight_types, output_types;
  };
  explicit answering_programs(referee_device& device) : device_(&device) {}
  expected<side> load_side(checked_program p) const;
  expected<std::vector<at::Tensor>> run_exactly(std::span<const tensor_view> inputs,
                                                std::span<const tensor_view> weights);
  expected<std::vector<at::Tensor>> run_strictly(std::span<const tensor_view> inputs,
                                                 std::span<const tensor_view> weights);
  expected<std::vector<at::Tensor>> run_side(side& s, std::span<const tensor_view> inputs,
                                             std::span<const tensor_view> weights) const;

  referee_device* device_;
  side eager_, exact_;
  bool strict_differs_ = false, exact_without_cudnn_ = false;
};

}  // namespace cudal1
