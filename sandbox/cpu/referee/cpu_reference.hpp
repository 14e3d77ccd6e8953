// The task's own program, run by the referee in float32 (as written) and in float64: the answers.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <boost/container/vector.hpp>

#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// One flat tensor for each output.
using answer = std::vector<boost::container::vector<std::byte>>;

class reference_program {
 public:
  static expected<reference_program> load(const task& t);

  struct answers {
    answer eager, exact;
  };
  // `inputs` and `weights` are mapped in the program's declared types.
  expected<answers> run(const mapped_tensors& inputs, const mapped_tensors& weights);

  const std::vector<tensor_type>& output_types() const { return eager_.output_types; }
  const std::vector<tensor_type>& exact_types() const { return exact_.output_types; }

 private:
  // One of the two.
  struct side {
    std::unique_ptr<interpreter> run;
    std::vector<tensor_type> input_types, weight_types, output_types;
  };
  static expected<side> load_side(checked_program p);
  expected<answer> run_side(side& s, const mapped_tensors& inputs, const mapped_tensors& weights) const;

  side eager_, exact_;
  std::vector<tensor_type> input_types_, weight_types_;  // as they are mapped
};

}  // namespace cudal1
