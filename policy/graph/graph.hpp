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
#include <utility>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1 {

struct operator_record;

// An operator with its arguments, by name: one of ATen's, or one of our own ("cudal1::row_scale") that a move put in
// its place. What our own compute stands in codegen's registry of them.
struct operator_use {
  std::string op;
  std::vector<std::pair<std::string, argument_value>> arguments;
  const operator_record* record = nullptr;  // of ATen's
};

struct graph_step {
  int number = 0;                           // in the task's program: what moves name
  const aten_step* text = nullptr;          // in the task's program: the names of its results, and what people call it
  std::shared_ptr<const operator_use> use;  // what computes the results
  std::span<const tensor_type> result_types;
  bool dropped = false;
  int group = -1;

  const std::string& op() const { return use->op; }
  const std::string& task_op() const { return text->op; }  // the operator that the results are defined by
  bool is_replaced() const { return op() != task_op(); }
  // What is known of the operator; of one of our own nothing.
  const operator_record& record() const;
  // The argument of that name, or null.
  const argument_value* argument(std::string_view name) const;
  // Values of all tensor arguments, unresolved.
  std::vector<std::string> operands() const;
};

// What takes the place of a step: it makes the same results under the same number, from other operands.
struct replacement {
  operator_use by;
  std::string certificate;         // why the results are the same
  std::vector<int> left_out = {};  // steps whose results nobody reads from then on
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

  // The step as the task's program has it: what its results are, whatever computes them now.
  const graph_step& definition(int number) const { return tables_->steps[static_cast<std::size_t>(number)]; }

  // What moves do to steps; the certificate says why no result changes. `replaced_by` stands for the step's first
  // result from then on, "" where nobody reads one.
  void drop(int number, const std::string& replaced_by, std::string certificate);
  void rewrite(int number, replacement with);
  const std::vector<std::string>& certificates() const { return certificates_; }  // in the order of the moves
  void set_group(int number, int group) { changed(number).group = group; }

  const tensor_type& type_of(const std::string& value) const;
  // The step that makes the (resolved) value; null for inputs and weights.
  const graph_step* producer(const std::string& value) const;
  // Live steps that read the value, in order.
  const std::vector<int>& readers(const std::string& value) const;
  // By step, the live steps that make what it reads.
  const std::vector<std::vector<int>>& makers() const { return links_->makers; }
  // Resolved operands of a live step: of a replaced one what it reads now.
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
    std::vector<graph_step> steps;
    std::vector<std::vector<tensor_type>> result_types;  // by step
    std::unordered_map<std::string, int> producer;       // the step that makes a value
  };
  struct links {
    std::vector<std::vector<int>> makers;
    std::unordered_map<std::string, std::vector<int>> readers;
  };
  void link();  // after steps were dropped or replaced
  graph_step& changed(int number) { return steps_[static_cast<std::size_t>(number)]; }

  const task* task_;
  std::shared_ptr<const tables> tables_;
  std::shared_ptr<const links> links_;
  std::vector<graph_step> steps_;
  std::vector<kernel_group> groups_;
  std::vector<std::string> certificates_;
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
