// The task's own program, ready to run as shipped and in float64: the source of expected outputs. Where it needs more
// memory than there is, it runs in parts of the batch (batch_parts.hpp).
#pragma once

#include <cstdint>
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
  // `cuda_device`: as in interpreter_options. `bytes`: of memory for its tensors; 0: as much as they need.
  // errc::out_of_memory if it does not fit in parts either: the message says what it needs, and why.
  static expected<reference_program> load(const task& t, int cuda_device, int64_t bytes = 0);
  // Loads it again in more parts, for half of the memory that it needs at a time now. errc::out_of_memory as of load():
  // then it stays as it is.
  expected<void> use_less_memory();
  int64_t parts() const { return parts_; }  // of the side that has more of them

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
  reference_program(checked_program shipped, checked_program exact, int cuda_device)
      : whole_shipped_(std::move(shipped)), whole_exact_(std::move(exact)), cuda_device_(cuda_device) {}
  expected<void> load_within(int64_t bytes);

  checked_program whole_shipped_, whole_exact_;  // not in parts
  int cuda_device_;
  int64_t need_ = 0, parts_ = 1;  // bytes
  side shipped_, exact_;
  bool strict_differs_ = false, faster_without_cudnn_ = false;
};

}  // namespace cudal1
