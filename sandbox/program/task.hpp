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
// A size is an integer or an expression over the profile's names with + - * / ( ), in shapes and in integer arguments
// ("N*C/4"; a division must leave no rest). `sizes` may be left out where every size is a number. A task is its
// program, how its tensors are drawn, and its facts, for one profile: those make its id.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/program/check.hpp"

namespace cudal1 {

// uniform: [low, high); normal: mean `low`... see the members. integer: uniform on low..high-1 (all integer inputs, one
// of which is an index, say). bernoulli: 1 with probability `probability`.
BOOST_DEFINE_ENUM_CLASS(distribution, uniform, normal, integer, bernoulli)

struct draw_spec {
  distribution kind = distribution::normal;
  double low = 0, high = 1;  // uniform, integer
  double mean = 0, std = 1;  // normal
  double probability = 0.5;  // bernoulli
  // What the operator is defined on, for the draws that leave the declared distribution: values are folded into it.
  std::optional<double> min, max;
  bool operator==(const draw_spec&) const = default;
};
BOOST_DESCRIBE_STRUCT(draw_spec, (), (kind, low, high, mean, std, probability, min, max))

// Preconditions that every draw keeps and that a move may build a proof on.
BOOST_DEFINE_ENUM_CLASS(fact, diagonal, upper_triangular, lower_triangular, symmetric, one_hot, non_negative)

struct input_spec {
  draw_spec draw;
  std::vector<fact> facts;
  bool operator==(const input_spec&) const = default;
};
BOOST_DESCRIBE_STRUCT(input_spec, (), (draw, facts))

struct task {
  std::string name, summary, family;
  std::string profile;              // "cpu" or "cuda": which sizes these are
  checked_program reference;        // ATen steps only, no setup
  std::vector<input_spec> inputs;   // as reference.text.inputs
  std::vector<input_spec> weights;  // as reference.text.weights
  std::string id;                   // SHA-256 of canonical_text without summary and family
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
