// Checks a whole program: every value's type, every step's arguments, and all rules. Only checked programs are run.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/program/operators/operators.hpp"
#include "sandbox/program/program.hpp"

namespace cudal1 {

struct checked_program {
  program text;
  std::string id;                              // program_id(text)
  std::map<std::string, tensor_type> types;    // every named value
  std::map<std::string, std::string> view_of;  // a value that is a view -> the value whose memory it uses (transitive)
  std::vector<operator_call> setup_calls;      // one for each setup step; empty `op` for alloc and launch
  std::vector<operator_call> calls;            // one for each step
  std::vector<std::vector<operator_result>> setup_results, results;  // of the ATen steps
  bool is_pure_aten() const;                                         // a task's program: ATen steps only
};

struct program_limits {
  int64_t max_steps = 4096;
  int64_t max_text_bytes = 4 << 20;
  int64_t max_tensor_bytes = int64_t{1} << 40;
  int64_t max_total_bytes = int64_t{1} << 42;  // of all tensors together
};

// Names bound once and before use; setup reads weights only; kernels named in launches exist in the source as
// `__global__ void NAME(`; launch sizes within CUDA's limits (grid 2^31-1 x 65535 x 65535, block at most 1024 threads,
// shared memory at most 227 KiB); outputs exist; nothing writes an input, a weight or a view of one; ATen steps pass
// their operator's rule; the source passes check_source (source.hpp).
expected<checked_program> check_program(program p, const program_limits& limits = {});
expected<checked_program> check_program_text(std::string_view text, const program_limits& limits = {});

// The program in float64: every floating tensor, weight, allocation and dtype argument becomes float64. For the
// referee's exact outputs; for programs of ATen steps only.
expected<program> to_float64(const program& p);

}  // namespace cudal1
