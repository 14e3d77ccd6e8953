// A task: what must be computed. A file in config/tasks, or one of the user's:
//
//   { "format": 1, "name": "softmax", "summary": "row softmax", "family": "normalization",
//     "sizes":  {"cpu": {"N": 1024, "C": 1024}, "cuda": {"N": 16384, "C": 4096}},
//     "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", "C"],
//                 "draw": {"distribution": "uniform", "low": 0, "high": 1}, "facts": []}],
//     "weights": [],
//     "steps":  [{"aten": "aten::softmax.int", "args": {"self": "x", "dim": 1}, "out": ["y"]}],
//     "outputs": ["y"] }
//
// A weight of an imported task has the values of its module: `"content": {"file": "<SHA-256>.safetensors",
// "tensor": "conv.weight"}` names a blob (in blobs/ beside the task file) and a tensor in it. The `declared` kind of
// draw uses these values, the other kinds are random by `draw`; with `"fixed": true` the values belong to the
// definition (an index table, a mask) and are the same in every draw. An input has content if its distribution is
// unknown: `"draws": 8` means that the tensors "x.0" to "x.7" are recorded draws, and a `declared` draw uses one of
// them, the same one for all such inputs. The origin of an imported task is
// `"origin": {"kind": "kernelbench", "level": 1, "problem": 23, "source": "<SHA-256>.py", "seed": 42,
// "modes": {"training": ["norm"], "evaluation": []}}`; its `modules` say which calls of modules the
// steps come from, and its `values` have quantiles of what floating steps produced when it was imported.
//
// A size is an integer or an expression over the profile's names with + - * / ( ), in shapes and in integer arguments
// ("N*C/4"; a division must have no remainder). `sizes` may be left out where every size is a number. A task consists
// of its program, the draws of its tensors, its weights' content and its facts, for one profile; its id depends on
// these only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/program/check.hpp"
#include "sandbox/program/task_interface.hpp"

namespace cudal1 {

// uniform: [low, high). normal: `mean` and `std`. integer: uniform on low..high-1 (indices, for example). bernoulli: 1
// with probability `probability`. signs: 1 or -1, equally likely. simplex: each row along the last dimension is a
// softmax of values of `of`, or of N(0,1) without it (in another kind of draw, of that kind's values), and nowhere 0.
// constant: `value`. Integer, bernoulli, signs and constant are the same in every kind of draw.
BOOST_DEFINE_ENUM_CLASS(distribution, uniform, normal, integer, bernoulli, signs, simplex, constant)

// One random number for all values of a draw, uniform on [low, high).
struct draw_factor {
  double low = 0, high = 1;
  bool operator==(const draw_factor&) const = default;
};
BOOST_DESCRIBE_STRUCT(draw_factor, (), (low, high))

struct draw_spec {
  distribution kind = distribution::normal;
  double low = 0, high = 1;           // uniform, integer
  double mean = 0, std = 1;           // normal
  double probability = 0.5;           // bernoulli
  double value = 0;                   // constant
  std::optional<distribution> of;     // simplex: uniform or normal, with the numbers above
  std::optional<draw_factor> factor;  // uniform, normal and the base of a simplex, in `declared` draws
  // The range on which the operator is defined: draws from other distributions are folded into it.
  std::optional<double> min, max;
  bool operator==(const draw_spec&) const = default;
};
BOOST_DESCRIBE_STRUCT(draw_spec, (), (kind, low, high, mean, std, probability, value, of, factor, min, max))

// Preconditions that hold in every draw and that moves may use in proofs.
BOOST_DEFINE_ENUM_CLASS(fact, diagonal, upper_triangular, lower_triangular, symmetric, one_hot, non_negative)

// A weight's values: a tensor in a safetensors file. For an input: several recorded draws.
struct tensor_content {
  std::string file;    // a blob
  std::string tensor;  // its name in the file: the module's, such as "conv.weight"
  bool fixed = false;  // the same values in every kind of draw
  int64_t draws = 0;   // of an input: the number of tensors, which are named tensor.0, tensor.1, ...
  bool operator==(const tensor_content&) const = default;
};
BOOST_DESCRIBE_STRUCT(tensor_content, (), (file, tensor, fixed, draws))

struct input_spec {
  draw_spec draw;
  std::vector<fact> facts;
  std::optional<tensor_content> content;
  // Of an input without content: a recorded distribution (quantiles.hpp) that `declared` draws have in place of `draw`.
  // No part of the task's id, so that equal parts of different tasks are one task; empty if none was recorded.
  std::vector<double> quantiles;
  bool operator==(const input_spec&) const = default;
};
BOOST_DESCRIBE_STRUCT(input_spec, (), (draw, facts, content, quantiles))

BOOST_DEFINE_ENUM_CLASS(origin_kind, kernelbench, python)

// The modules whose mode decides what forward computes, in the mode that they were recorded in.
struct module_modes {
  std::vector<std::string> training, evaluation;  // "" is the model itself
  bool operator==(const module_modes&) const = default;
};
BOOST_DESCRIBE_STRUCT(module_modes, (), (training, evaluation))

// A call of one of the model's modules, as the task's steps [first, first + count). `like`: the place of an earlier
// call in the list that does the same with other tensors (a layer that is repeated), or -1.
struct module_call {
  std::string path, kind;  // "encoder.layers.0", its class
  int64_t first = 0, count = 0;
  int64_t like = -1;
  bool operator==(const module_call&) const = default;
};
BOOST_DESCRIBE_STRUCT(module_call, (), (path, kind, first, count, like))

// What a task was imported from.
struct task_origin {
  origin_kind kind = origin_kind::python;
  std::optional<int64_t> level, problem;  // of KernelBench's
  std::string source;                     // a blob: the Python file, byte for byte
  int64_t seed = 0;                       // with which its weights were initialised
  std::optional<module_modes> modes;      // unknown: it may be that of any module
  std::string part;                       // the path of one module of the model; "": the whole
  std::vector<module_call> modules;       // by first step, an outer one before those in it
  // Quantiles (quantiles.hpp) of what floating steps produced on the example inputs, by the results' names.
  std::map<std::string, std::vector<double>> values;
  std::string uncompared = {};  // why no call of the model was compared with the task; "" if one was
  bool operator==(const task_origin&) const = default;
};
BOOST_DESCRIBE_STRUCT(task_origin, (), (kind, level, problem, source, seed, modes, part, modules, values, uncompared))

struct task {
  std::string name, summary, family;
  std::string explanation;         // why a null model (verify/null_models.hpp) may be correct; "" if there is no reason
  std::string profile;             // "cpu" or "cuda": which sizes these are
  checked_program reference;       // ATen steps only, no setup
  std::vector<input_spec> inputs;  // as reference.text.inputs
  std::vector<input_spec> weights;  // as reference.text.weights
  std::vector<task_state> states;
  std::optional<json> returns;  // see task_interface.hpp
  std::optional<task_origin> origin;
  std::string id;      // SHA-256 of canonical_text without summary, family, explanation, origin and quantiles
  std::string folder;  // of its file and blobs/; "" for a task read from a text
  // The files of its weights' and inputs' content, each once; at most most_content_files.
  static constexpr std::size_t most_content_files = 8;
  std::vector<std::string> content_files() const;
  bool has_fact(std::string_view tensor, fact f) const;
  // Whether its source's Model computes what the task does.
  bool is_whole_model() const { return origin && origin->part.empty(); }
};

// Imported, and no call of its model was compared with it.
inline bool is_uncompared(const task& t) {
  return t.origin && !t.origin->uncompared.empty();
}
inline constexpr const char* uncompared_mark = " (uncompared)";  // behind the names of such tasks, in tables

// One line of JSON with all sizes as numbers; read_task(canonical_text(t), any profile) gives the same task and id. The
// store and messages between processes use this text.
std::string canonical_text(const task& t);

// `profile` selects the sizes; a file with `sizes` but without that profile is an error that lists its profiles.
expected<task> read_task(std::string_view text, std::string_view profile);
expected<task> load_task(const std::string& path, std::string_view profile);
// Every *.json of a folder, sorted by name; two tasks with the same name are an error.
expected<std::vector<task>> load_tasks(const std::string& folder, std::string_view profile);
// Where the built-in tasks are: $CUDAL1_TASKS, else beside the installed binaries (../share/cudal1/tasks), else the
// source tree that this was built from.
expected<std::string> builtin_task_folder();

}  // namespace cudal1
