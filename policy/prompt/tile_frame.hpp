// Kernels of which all but the body follows from a task: an answer of the form `tile` names such a frame and writes the
// body, with calls of the tile vocabulary.
//
//   rows      a block computes a row of the results: its rows of the operands come into registers
//             (load_row_of_block), sums and greatest values are over the block, results go back
//   product   a block computes a tile of a product of two operands (for_stages, multiply_ab), and what follows
//             elementwise on the sums (for_each_pair); the frame has the copies of its tiles
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// A tensor beside rows of results.
struct frame_tensor {
  std::string name;
  dtype type = dtype::float32;
  bool is_one_per_row = false;  // else it has a row of as many columns as the results
  std::string row = "row";      // the number of the row that belongs to row `row` of the results, in C
};

struct tile_frame {
  std::string kind;                   // "rows", "product"
  std::vector<std::string> choices;   // what may follow the kind, "threads=256", the best guess first
  std::vector<frame_tensor> read;     // inputs and weights in their order, without a product's operands
  std::vector<frame_tensor> written;  // the outputs
  int64_t rows = 0, columns = 0;      // of the results
  std::string left, right;            // a product's operands: rows x terms, and
  bool right_is_transposed = false;   // columns x terms in place of terms x columns
  int64_t terms = 0;
  dtype operand_type = dtype::float32;  // of both
};

// Those that the task's program allows, the most special one first. `rows`: every step is elementwise or a reduction,
// softmax or normalization over the last dimensions of one shape, and no product. `product`: one product of two given
// matrices whose sizes are multiples of the tiles, and elementwise steps.
std::vector<tile_frame> frames_of(const task& t);

// One launch of a kernel, and its source before and behind the body, whose lines are indented by two blanks.
struct framed_kernel {
  launch_step launch;
  std::string begin, end;
};
// `choice`: of frame.choices; else errc::invalid_program, with those.
expected<framed_kernel> kernel_of(const tile_frame& frame, const std::string& choice);

// The functions that load and store rows of elements of this type: "load_row_of_block", "store_row_of_block".
std::string load_function(dtype t);
std::string store_function(dtype t);
// Elements of a row that a thread has.
int64_t elements_of_thread(int64_t columns, int64_t threads);
// The number of a choice, "threads" of "threads=256".
int64_t number_in(std::string_view choice, std::string_view name);

// In the files of their kinds.
std::optional<tile_frame> rows_frame(const task& t);
std::optional<tile_frame> product_frame(const task& t);
framed_kernel rows_kernel(const tile_frame& frame, const std::string& choice);
framed_kernel product_kernel(const tile_frame& frame, const std::string& choice);

// Where a tensor lies beside results of the shape `domain`, of which the last `row_dims` dimensions are a row: none if
// it is neither a row of them nor one element for each row. Shapes align from the last dimension, as in PyTorch.
std::optional<frame_tensor> placed_in(const std::string& name, const tensor_type& type,
                                      const std::vector<int64_t>& domain, std::size_t row_dims);
// From a tensor's first element to that of its row: " + (long long)row * COLUMNS", or "".
std::string row_offset(const frame_tensor& t, std::string_view columns);
// The argument of that name, or null.
const json* step_argument(const aten_step& s, std::string_view name);
// Whether its name may be a variable of a kernel beside those of the frame.
bool has_free_name(const std::string& tensor);

// "const float* __restrict__ x_in, float* __restrict__ y_out": operands of a product first.
std::string parameters_of(const tile_frame& frame);
// A launch's arguments in that order.
std::vector<launch_argument> arguments_of(const tile_frame& frame);

}  // namespace cudal1
