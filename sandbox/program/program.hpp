// Programs: the only executable format, for references and variants. A program is a text document: a JSON head, a line
// `---`, then CUDA C++ source (the line and the source are left out where there are no kernels).
//
//   { "format": 1, "name": "row_scale",
//     "inputs":  [{"name": "a", "dtype": "float32", "shape": [4096]},
//                 {"name": "b", "dtype": "float32", "shape": [4096, 4096]}],
//     "weights": [], "setup": [],
//     "steps": [
//       {"alloc": "y", "dtype": "float32", "shape": [4096, 4096]},
//       {"launch": "row_scale", "grid": [4096, 1, 1], "block": [256, 1, 1], "shared_bytes": 0,
//        "args": [{"in": "a"}, {"in": "b"}, {"out": "y"}, {"i32": 4096}]},
//       {"aten": "aten::relu", "args": {"self": "y"}, "out": ["z"]} ],
//     "outputs": ["z"],
//     "execution": {"graph": false, "lanes": 1},
//     "headers": [] }
//   ---
//   __global__ void row_scale(const float* a, const float* b, float* y, int n) { ... }
//
// A shape may come with strides; the default is contiguous. `weights`, `setup`, `execution`, `headers`,
// `shared_bytes` may be left out. Every name is bound once (inputs, weights, alloc, results) and used after that;
// `inout` and `out` arguments must name allocated tensors or results of ATen steps that own their memory, never inputs
// or weights.
//
// A launch with `"cooperative": true` runs all blocks of its grid at the same time, and its kernel may call
// grid_sync(). With `"programmatic": true` it may begin before the launch directly ahead of it has ended (programmatic
// dependent launch), and its kernel calls wait_for_previous_kernel() before it reads or writes what that one does.
// `{"in": "a", "map": {"box": [64, 32], "swizzle": 128}}` passes a tensor to a parameter
// `const __grid_constant__ tensor_map a` in place of a pointer: see tensor_map.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

struct tensor_declaration {
  std::string name;
  tensor_type type;
  bool operator==(const tensor_declaration&) const = default;
};
std::vector<tensor_type> types_of(const std::vector<tensor_declaration>& declarations);

// Memory for a kernel to write. It is poisoned: a program that reads it before writing gets garbage.
struct alloc_step {
  std::string name;
  tensor_type type;  // contiguous
  bool operator==(const alloc_step&) const = default;
};

enum class argument_kind { in, out, inout, i32, i64, f32, f64 };

// How load_tile() and store_tile() divide a tensor into boxes (CUDA's tensor maps, which the tensor memory accelerator
// of compute capability 9.0 reads). Elements of a box that are outside the tensor are read as zeros and not written.
struct tensor_map {
  std::vector<int64_t> box;  // its size in each of the tensor's dimensions
  // 32, 64 or 128: the bytes of a box's row, of which the 16-byte pieces are permuted in shared memory; 0: none are.
  int64_t swizzle = 0;
  bool operator==(const tensor_map&) const = default;
};

struct launch_argument {
  argument_kind kind = argument_kind::in;
  std::string tensor;                  // in, out, inout
  int64_t integer = 0;                 // i32, i64
  double real = 0;                     // f32 (already rounded to float), f64; may be infinite or NaN
  std::optional<tensor_map> map = {};  // of a tensor: it is passed as such a map in place of a pointer
  bool is_tensor() const { return kind <= argument_kind::inout; }
  bool operator==(const launch_argument& other) const;  // compares reals by bits, but NaN equals NaN
};

struct launch_step {
  std::string kernel;
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  int64_t shared_bytes = 0;  // dynamic shared memory
  std::vector<launch_argument> args;
  bool cooperative = false, programmatic = false;
  bool operator==(const launch_step&) const = default;
};

// A pure ATen operator with its overload ("aten::add.Tensor"). `args` by the schema's names, in the schema's order in
// the canonical form; a Tensor argument is the name of a value, Tensor[] an array of names, dtypes and memory formats
// are names ("float32", "channels_last"). Arguments with a default may be left out.
struct aten_step {
  std::string op;
  std::vector<std::pair<std::string, json>> args;
  std::vector<std::string> results;  // one for each result of the schema; "" for one that nothing reads
  std::string precision;             // "", "float32", "tf32"
  bool operator==(const aten_step&) const = default;
};

using step = std::variant<alloc_step, launch_step, aten_step>;

struct execution {
  bool graph = false;
  int64_t lanes = 1;  // 1 to 16
  bool operator==(const execution&) const = default;
};

// Sets of headers that a program's source may include. Most kernels include nothing, and such a program compiles twenty
// times faster. A set includes the sets that it depends on.
inline constexpr std::array<std::string_view, 4> header_sets{"cuda", "libcu++", "cub", "cutlass"};

struct program {
  std::string name;
  std::vector<tensor_declaration> inputs, weights;
  std::vector<step> setup;  // run once; read weights and other setup results only
  std::vector<step> steps;
  std::vector<std::string> outputs;  // distinct names
  execution how;
  std::vector<std::string> headers;  // what the source may include, of header_sets, in that order
  std::string source;
  bool operator==(const program&) const = default;
};

// A program's lists of steps.
enum class program_section { setup, steps };

// The name of a step in errors, logs and reports: "step 2 (launch row_scale)", counted from 1; "setup step 1
// (aten::t)".
std::string step_label(std::size_t index, const step& s, program_section section = program_section::steps);

inline constexpr int64_t program_format = 1;
inline constexpr std::string_view program_separator = "---";

// Reads a program's text: every key must be known, of the right kind and in range. Unknown keys, duplicate keys and a
// newer format are errors; each error names the step ("step 3 (launch row_scale): grid[1]: ...") and what is expected.
// check_program (check.hpp) checks what the steps mean together. Line ends of either kind are read as "\n", and the
// arguments of ATen steps are put into their schema's order.
expected<program> read_program(std::string_view text);
// Reads a program whose head is parsed already (task files build theirs in memory).
expected<program> read_program(const json& head, std::string source);

// The canonical form: fixed key order and number form, then the source. read_program(print_program(p)) == p for
// every p that read_program gave or check_program accepted.
std::string print_program(const program& p);
// The head alone, for display: indented, one step per line.
std::string print_program_head(const program& p);

// SHA-256 of the canonical form: the same id on every machine.
std::string program_id(const program& p);

}  // namespace cudal1
