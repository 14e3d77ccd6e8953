// The task's program as a graph that moves work on: its steps with typed arguments, what became of each (dropped,
// rewritten, put into a group), and the groups that will each be one kernel.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/graph/schedule.hpp"

namespace cudal1 {

// A matrix product with a diagonal operand, as scaling: out[i, j] = diagonal[i or j] * matrix[i, j].
struct row_scale {
  std::string diagonal;         // the value that holds the diagonal
  int64_t diagonal_stride = 0;  // elements from one diagonal entry to the next
  std::string matrix;
  bool scales_rows = true;  // else columns
};

// A sum over the features of a linear layer, without the layer: out[..., row] = factor * (values[row, :] . weights +
// offset). `weights` and `offset` are setup values: the sums of the layer's weight rows and of its bias.
struct row_dot {
  std::string values, weights, offset;  // offset: "" for none
  double factor = 1;
};

struct graph_step {
  int number = 0;  // in the task's program: what moves name
  const aten_step* text = nullptr;
  const operator_call* call = nullptr;
  std::span<const tensor_type> result_types;
  bool dropped = false;
  std::optional<row_scale> scaling;
  std::optional<row_dot> dot;
  bool split_product = false;  // three TF32 products on split operands instead
  int group = -1;

  const std::string& op() const { return text->op; }
  // The argument of that name in the schema, or null.
  const argument_value* argument(std::string_view name) const;
  // Values of all tensor arguments, unresolved.
  std::vector<std::string> operands() const;
};

enum class group_kind { pointwise, rows };

struct group_options {
  int64_t threads = 0;         // a block; 0: the device's default
  int64_t items = 0;           // elements a thread (pointwise on one dimension); 0: the default
  int64_t accumulators = 0;    // partial sums side by side; on cuda vectors of a row in flight; 0: the default
  int64_t row_threads = 0;     // that share a row (cuda); 0: the default
  std::string in_place;        // the operand that the (only) result is written over; "" for none
  bool keep_expensive = true;  // keep what costs more than a load for later passes, or compute it again
};

struct kernel_group {
  group_kind kind = group_kind::pointwise;
  std::vector<int> steps;  // ascending
  group_options options;
  std::set<std::string> decided;  // names of the parameter moves that were made already
};

// The state of lowering. Copyable, and that is cheap: legality is tried out on copies, so that what no move changes is
// shared. Points into the task, which must outlive it.
class graph {
 public:
  explicit graph(const task& t);

  const task& origin() const { return *task_; }
  const std::vector<graph_step>& steps() const { return steps_; }
  const graph_step& step_at(int number) const { return steps_[static_cast<std::size_t>(number)]; }
  bool has_step(int number) const { return number >= 0 && number < static_cast<int>(steps_.size()); }

  std::vector<kernel_group>& groups() { return groups_; }
  const std::vector<kernel_group>& groups() const { return groups_; }

  // The value that stands for this one after drops.
  const std::string& resolve(const std::string& value) const;

  // What moves do to steps.
  void drop(int number);
  void drop(int number, const std::string& replaced_by);  // which stands for its first result from now on
  void rewrite(int number, row_scale by);
  void rewrite(int number, row_dot by);
  void split_product(int number) { changed(number).split_product = true; }
  void set_group(int number, int group) { changed(number).group = group; }

  const tensor_type& type_of(const std::string& value) const;
  // The step that makes the (resolved) value; null for inputs and weights.
  const graph_step* producer(const std::string& value) const;
  // Live steps that read the value, in order.
  const std::vector<int>& readers(const std::string& value) const;
  // By step, the live steps that make what it reads.
  const std::vector<std::vector<int>>& makers() const { return links_->makers; }
  // Resolved operands of a live step; of a rewritten one what it reads now.
  std::vector<std::string> operands(const graph_step& s) const;
  bool is_output(const std::string& value) const;
  bool is_parameter(const std::string& value) const;  // input, weight or setup value

  // What runs once, on weights only; `name` with a suffix where a value has it already.
  const std::vector<aten_step>& setup() const { return setup_; }
  std::string fresh_name(const std::string& name) const;
  void add_setup(aten_step s, tensor_type type);

  // Whether the whole program is replayed as one CUDA graph.
  bool replayed() const { return replayed_; }
  void replay() { replayed_ = true; }

  // The order in which steps and groups run: group g as -1 - g, a step as its number. An error where groups need each
  // other in a circle.
  expected<std::vector<int>> order() const;

 private:
  // Of the task's own program.
  struct tables {
    std::vector<std::vector<tensor_type>> result_types;  // by step
    std::unordered_map<std::string, int> producer;       // the step that makes a value
  };
  struct links {
    std::vector<std::vector<int>> makers;
    std::unordered_map<std::string, std::vector<int>> readers;
  };
  void link();  // after a step was dropped or rewritten
  graph_step& changed(int number) { return steps_[static_cast<std::size_t>(number)]; }

  const task* task_;
  std::shared_ptr<const tables> tables_;
  std::shared_ptr<const links> links_;
  std::vector<graph_step> steps_;
  std::vector<kernel_group> groups_;
  std::map<std::string, std::string> alias_;
  std::vector<aten_step> setup_;
  std::map<std::string, tensor_type> setup_types_;
  bool replayed_ = false;
};

// "2..4+7": sets of steps as moves write them.
std::string print_steps(const std::vector<int>& steps);
expected<std::vector<int>> parse_steps(std::string_view text);

// Typed access to arguments; the fallback where the argument is missing, null or of another kind.
std::optional<int64_t> integer_argument(const graph_step& s, std::string_view name);
std::optional<double> number_argument(const graph_step& s, std::string_view name);
std::optional<bool> boolean_argument(const graph_step& s, std::string_view name);
std::optional<std::string> tensor_argument_name(const graph_step& s, std::string_view name);
std::optional<std::string> string_argument(const graph_step& s, std::string_view name);
std::optional<std::vector<int64_t>> integers_argument(const graph_step& s, std::string_view name);

}  // namespace cudal1
