// A task: what must be computed. A file of config/tasks, or of the user's own:
//
//   { "format": 1, "name": "softmax", "summary": "row softmax", "family": "normalization",
//     "sizes":  {"cpu": {"N": 1024, "C": 1024}, "cuda": {"N": 16384, "C": 4096}},
//     "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", "C"],
//                 "draw": {"distribution": "uniform", "low": 0, "high": 1}, "facts": []}],
//     "weights": [],
//     "steps":  [{"aten": "aten::softmax.int", "args": {"self": "x", "dim": 1}, "out": ["y"]}],
//     "outputs": ["y"] }
//
// A weight of an imported task has its module's values: `"content": {"file": "<SHA-256>.safetensors", "tensor":
// "conv.weight"}`, a blob (blobs/ beside the task file) and the name of a tensor in it. The `declared` draw takes
// these, the others randomise by `draw`; with `"fixed": true` in it the values belong to the definition (an index
// table, a mask), and are the same in every draw. `"origin": {"kind": "kernelbench", "level": 1, "problem": 23,
// "source":
// "<SHA-256>.py", "seed": 42}` says what a task was imported from.
//
// A size is an integer or an expression over the profile's names with + - * / ( ), in shapes and in integer arguments
// ("N*C/4"; a division must leave no rest). `sizes` may be left out where every size is a number. A task is its
// program, how its tensors are drawn, its weights' content, and its facts, for one profile: those make its id.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/program/check.hpp"

namespace cudal1 {

// uniform: [low, high); normal: mean `low`... see the members. integer: uniform on low..high-1 (all integer inputs, one
// of which is an index, say). bernoulli: 1 with probability `probability`. signs: 1 or -1, evenly. simplex: each row
// along the last dimension is a softmax of N(0,1) values (in another kind of draw, of that kind's values), and nowhere
// 0. constant: `value`. Integers, bernoulli, signs and constant are the same in every kind of draw.
BOOST_DEFINE_ENUM_CLASS(distribution, uniform, normal, integer, bernoulli, signs, simplex, constant)

struct draw_spec {
  distribution kind = distribution::normal;
  double low = 0, high = 1;  // uniform, integer
  double mean = 0, std = 1;  // normal
  double probability = 0.5;  // bernoulli
  double value = 0;          // constant
  // What the operator is defined on, for the draws that leave the declared distribution: values are folded into it.
  std::optional<double> min, max;
  bool operator==(const draw_spec&) const = default;
};
BOOST_DESCRIBE_STRUCT(draw_spec, (), (kind, low, high, mean, std, probability, value, min, max))

// Preconditions that every draw keeps and that a move may build a proof on.
BOOST_DEFINE_ENUM_CLASS(fact, diagonal, upper_triangular, lower_triangular, symmetric, one_hot, non_negative)

// A weight's values: a tensor in a file of safetensors.
struct tensor_content {
  std::string file;    // a blob
  std::string tensor;  // its name there: the module's, as in "conv.weight"
  bool fixed = false;  // the values in every kind of draw
  bool operator==(const tensor_content&) const = default;
};
BOOST_DESCRIBE_STRUCT(tensor_content, (), (file, tensor, fixed))

struct input_spec {
  draw_spec draw;
  std::vector<fact> facts;
  std::optional<tensor_content> content;  // of a weight
  bool operator==(const input_spec&) const = default;
};
BOOST_DESCRIBE_STRUCT(input_spec, (), (draw, facts, content))

BOOST_DEFINE_ENUM_CLASS(origin_kind, kernelbench, python)

// What a task was imported from.
struct task_origin {
  origin_kind kind = origin_kind::python;
  std::optional<int64_t> level, problem;  // of KernelBench's
  std::string source;                     // a blob: the Python file, byte for byte
  int64_t seed = 0;                       // that its weights were made with
  bool operator==(const task_origin&) const = default;
};
BOOST_DESCRIBE_STRUCT(task_origin, (), (kind, level, problem, source, seed))

struct task {
  std::string name, summary, family;
  std::string profile;              // "cpu" or "cuda": which sizes these are
  checked_program reference;        // ATen steps only, no setup
  std::vector<input_spec> inputs;   // as reference.text.inputs
  std::vector<input_spec> weights;  // as reference.text.weights
  std::optional<task_origin> origin;
  std::string id;      // SHA-256 of canonical_text without summary, family and origin
  std::string folder;  // where its file is, with blobs/ beside it; "" of a task that was read from a text
  // The files of its weights' content, each once; at most most_content_files.
  static constexpr std::size_t most_content_files = 8;
  std::vector<std::string> content_files() const;
  bool has_fact(std::string_view tensor, fact f) const;
};

// One line of JSON with all sizes numbers; read_task(canonical_text(t), any profile) gives the same task and id. This
// is what the store keeps and what travels between processes.
std::string canonical_text(const task& t);

// `profile`: whose sizes; a file with `sizes` but without that profile is an error that lists the ones it has.
expected<task> read_task(std::string_view text, std::string_view profile);
expected<task> load_task(const std::string& path, std::string_view profile);
// Every *.json of a folder, by name; two tasks of one name are an error.
expected<std::vector<task>> load_tasks(const std::string& folder, std::string_view profile);
// Where the built-in tasks are: $CUDAL1_TASKS, else beside the installed binaries (../share/cudal1/tasks), else the
// source tree that this was built from.
expected<std::string> builtin_task_folder();

}  // namespace cudal1
