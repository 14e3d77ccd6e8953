// A program that computes what another one does in parts of the batch, one after the other, so that less memory is in
// use at a time: a task's own program that does not fit a device is run, and timed, in this form.
#pragma once

#include <cstdint>

#include "sandbox/program/check.hpp"

namespace cudal1 {

// The same inputs, weights and outputs. Steps that compute each element of the batch by itself (batch_rules) are there
// once for each of `parts` equal parts, which aten::narrow takes from the inputs; aten::cat joins what the other steps
// and the outputs need. The batch is the first dimension of some inputs; where several choices of inputs are possible,
// the one that needs the least memory. For programs of ATen steps only.
// errc::unsupported: with the reason, if no input has a batch that the parts divide, or its elements are mixed at once.
expected<checked_program> in_parts(const checked_program& p, int64_t parts);

struct fitted_program {
  checked_program what;
  int64_t parts = 1;  // 1: it is the program as it was given
};

// In as few parts as fit `bytes` of memory for its tensors (memory_need); 0 is no limit. errc::out_of_memory if no
// number of parts does: the message says what is needed, and why parts do not help.
expected<fitted_program> fit_in_parts(const checked_program& p, int64_t bytes);

}  // namespace cudal1
