// Judges programs of a task by the gates, on one draw of each kind, in this process: compiled for the host, as CUDA's
// kernels are too. Needs the arena (use_judging_arena), which makes out-of-bounds writes visible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "policy/graph/schedule.hpp"
#include "sandbox/program/task.hpp"
#include "sandbox/referee/compare_on_host.hpp"
#include "sandbox/referee/reference_program.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1::test {

// Installs the tensors' memory with the first call in a process.
void use_judging_arena();

// Whether its kernels round float32 to TF32, as a GPU's library does: not what the gates accept of a CPU's.
inline bool rounds_to_tf32(const schedule& s) {
  return std::ranges::any_of(
      s.moves, [](const move& m) { return m.name == "tensor_core_convolution" && m.parameters.size() == 1; });
}

class judged_task {
 public:
  explicit judged_task(const task& t);
  // Why the gates reject the program; "" where they accept it. Throws where it cannot be compiled or called.
  std::string problem_of(program p);

  // A draw of the task, and what its own program makes of it.
  using flat = std::vector<std::byte>;
  struct known_draw {
    draw_request request;
    std::vector<flat> inputs, weights, eager, exact;
    std::vector<std::vector<float>> rounding;  // as rounding_distances has it; empty before it is needed
  };

 private:
  void fill(known_draw& d);
  void find_rounding(known_draw& d);
  compared_output operands_of(const known_draw& d, std::size_t output) const;
  void compare(interpreter& variant, known_draw& d, draw_check& into);

  const task& t_;
  verification_options options_;
  reference_program reference_;
  check_plan plan_;
  std::vector<known_draw> draws_;
};

}  // namespace cudal1::test
