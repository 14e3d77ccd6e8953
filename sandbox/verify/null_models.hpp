// Gate 7: null models, answers that take no work. Each must fail on a task, once a session; if one passes, the task's
// distributions are too weak for it, or its result is provably that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sandbox/device/session.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1 {

struct null_model {
  std::string name;  // "zeros", "the constant 0.5", "the input x", "half of x along dimension 1", ...
  checked_program program;
  bool against_previous = false;  // its outputs are compared with the expected outputs of the previous draw
};

// Programs that are handed in like a variant:
//   zeros, a constant (the mean of the expected output, where that is known)
//   the input passed through: each input that has the output's type and number of elements
//   half of a reduction: the task's program on an input whose second half along one dimension repeats the first; of the
//   largest input of which every element is certainly needed (work.hpp), along each dimension
//   the previous draw's answer: the task's program, compared with the other draw
// A task with several outputs has the first three for all of them at a time. What the format cannot express is left
// out.
std::vector<null_model> null_models_of(const task& t, std::optional<double> mean);

// Why a null model of that name may pass: "" if nothing is known. The task's own explanation, or a proof: every output
// is the same on every draw, or equals an input (constant_result.hpp).
std::string explanation_of(const task& t);

// What came of them on one task.
struct null_report {
  std::vector<std::string> passed;  // names of those that all gates accept
  std::string explanation;          // why they may; "" if that is unknown
  int checked = 0;
  double total_ms = 0;

  bool is_unexplained() const { return !passed.empty() && explanation.empty(); }
  // "7 null models", with the names; never passed where is_unexplained().
  gate_result gate() const;
};
// The task is the session's current one. Each model is checked on two draws, and on all draws of `plan` if it passes
// there. Errors: the session's.
expected<null_report> check_null_models(device_session& session, const task& t, const check_plan& plan,
                                        const verification_options& options);

}  // namespace cudal1
