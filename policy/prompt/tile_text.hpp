// Answers of the form `tile` as texts, and the programs that they mean. A text is one of
//
//   rows threads=256                                     a frame of the task (tile_frame), and the body of its kernel
//   float x[N];
//   load_row_of_block<THREADS>(x, x_row, COLUMNS, 0.0f); ...
//
//   launch first_kernel grid=16,16,1 block=256,1,1 shared_bytes=98304      launches in their order,
//   launch second_kernel grid=256,1,1 block=256,1,1 shared_bytes=0
//   tensor t0 float32[256, 384]                                            what lies between the kernels,
//   __global__ void first_kernel(const float* __restrict__ x_in, float* __restrict__ t0_out) { ... }    and the source
//
// Inputs, weights and outputs are the task's. A parameter is a tensor by its name with _in or _out behind it: what is
// const is read, what is not is written, or written again. Steps are replayed as one CUDA graph.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/base/error.hpp"
#include "sandbox/program/program.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

struct tile_code {
  program made;     // not checked
  std::string own;  // what the answer wrote of its source: the body, or all
};

// Whether a text begins as one of these.
bool looks_like_tile(std::string_view text);
// errc::parse_error if its lines before body or source cannot be read; other errors of what they mean together, such as
// errc::invalid_program for a kernel that the source lacks. Each says what to write instead.
expected<tile_code> read_tile(std::string_view text, const task& t);
// The text that means the program's kernels; none if it has other steps than allocations and launches of its steps,
// arguments that are no tensors, or parameters that are not named after them.
std::optional<std::string> tile_text_of(const program& p, const task& t);
// For programs as texts; the text itself where there is none.
std::string as_tile_text(const std::string& program, const task& t);

}  // namespace cudal1
