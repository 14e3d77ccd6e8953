// The task's own program, ready to run as shipped and in float64: the source of expected outputs.
#pragma once

#include <memory>
#include <vector>

#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

class reference_program {
 public:
  struct side {
    std::unique_ptr<interpreter> run;
    std::vector<tensor_type> input_types, weight_types, output_types;
  };
  // `cuda_device`: as in interpreter_options.
  static expected<reference_program> load(const task& t, int cuda_device);

  side& shipped() { return shipped_; }
  side& exact() { return exact_; }
  const std::vector<tensor_type>& output_types() const { return shipped_.output_types; }
  const std::vector<tensor_type>& exact_types() const { return exact_.output_types; }
  // Whether TensorFloat-32 may affect its outputs on a GPU. A program without a step that uses cuDNN is strict as
  // shipped.
  bool strict_differs() const { return strict_differs_; }
  // Whether it runs faster without cuDNN in float64 on a GPU.
  bool is_faster_without_cudnn() const { return faster_without_cudnn_; }

 private:
  side shipped_, exact_;
  bool strict_differs_ = false, faster_without_cudnn_ = false;
};

}  // namespace cudal1
