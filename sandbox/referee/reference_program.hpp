// The task's own program, ready to be computed as it ships and in float64: where expected outputs come from.
#pragma once

#include <memory>
#include <vector>

#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

std::vector<tensor_type> types_of(const std::vector<tensor_declaration>& declarations);

class reference_program {
 public:
  struct side {
    std::unique_ptr<interpreter> run;
    std::vector<tensor_type> input_types, weight_types, output_types;
  };
  // `cuda_device`: as interpreter_options has it.
  static expected<reference_program> load(const task& t, int cuda_device);

  side& shipped() { return shipped_; }
  side& exact() { return exact_; }
  const std::vector<tensor_type>& output_types() const { return shipped_.output_types; }
  const std::vector<tensor_type>& exact_types() const { return exact_.output_types; }
  // Whether TensorFloat-32 may make a difference to it on a GPU. A program without a step that cuDNN computes is strict
  // as it ships.
  bool strict_differs() const { return strict_differs_; }
  // In float64 on a GPU.
  bool is_faster_without_cudnn() const { return faster_without_cudnn_; }

 private:
  side shipped_, exact_;
  bool strict_differs_ = false, faster_without_cudnn_ = false;
};

}  // namespace cudal1
