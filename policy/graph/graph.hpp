// The task's program as the graph that moves transform: its steps with typed arguments, the state of each (dropped,
// rewritten, grouped), and the groups, each of which becomes one kernel.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/graph/kernel_options.hpp"
#include "sandbox/program/operators/number_facts.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

struct operator_record;

// An operator with its arguments by name: an ATen operator, or an internal operator ("cudal1::row_scale", see
// policy/internal_operators/internal_operators.hpp) that a move substituted for it.
struct operator_use {
  std::string op;
  std::vector<std::pair<std::string, argument_value>> arguments;
  const operator_record* record = nullptr;  // null for internal operators
};

struct graph_step {
  int number = 0;                           // in the graph's program (see graph); moves refer to it
  const aten_step* text = nullptr;          // the step in that program
  std::shared_ptr<const operator_use> use;  // what computes the results
  std::span<const tensor_type> result_types;
  bool dropped = false;
  int group = -1;

  const std::string& op() const { return use->op; }
  const std::string& task_op() const { return text->op; }  // the operator that defines the results
  bool is_replaced() const { return op() != task_op(); }
  // The operator's record; an empty one for internal operators.
  const operator_record& record() const;
  // The argument of that name, or null.
  const argument_value* argument(std::string_view name) const;
  // Values of all tensor arguments, unresolved.
  std::vector<std::string> operands() const;
};

// Replaces a step: computes the same results under the same number, from other operands.
struct replacement {
  operator_use by;
  std::string certificate;         // why the results are the same
  std::vector<int> left_out = {};  // steps whose results nothing reads any more
  // The value of the task that the first result is from then on; "": the one that it was.
  std::string becomes = {};
};

enum class group_kind { pointwise, rows, product };

struct kernel_group {
  group_kind kind = group_kind::pointwise;
  std::vector<int> steps;  // ascending
  kernel_options options;
  std::set<std::string> decided;  // names of applied moves that cannot be applied again
};

// The state of lowering. Cheap to copy, since legality is tested on copies: what no move changes is shared. Points into
// the task, which must outlive it.
//
// Its steps are those of the task's program, where with_early_slices changes the order of some and with_loss_steps
// makes two of some losses, and those of another program for the task where a move asks for it (prepare).
class graph {
 public:
  explicit graph(const task& t);

  // Goes on with this program for the task. Its steps have other numbers, so an error where another move than one that
  // does this was applied before. `certificate`: why the results are the same where some steps compute them in another
  // way (is_prepared); "" for a program that differs in its layout only.
  expected<void> prepare(std::shared_ptr<const task> with, std::string certificate = "");

  // The task with the graph's steps as its program.
  const task& origin() const { return *task_; }
  const std::vector<graph_step>& steps() const { return steps_; }
  const graph_step& step_at(int number) const { return steps_[static_cast<std::size_t>(number)]; }
  bool has_step(int number) const { return number >= 0 && number < static_cast<int>(steps_.size()); }

  std::vector<kernel_group>& groups() { return groups_; }
  const std::vector<kernel_group>& groups() const { return groups_; }

  // The value that replaces this one after drops, or the value itself.
  const std::string& resolve(const std::string& value) const;

  // The step before any rewriting: what its results are, whatever computes them now.
  const graph_step& definition(int number) const { return tables_->steps[static_cast<std::size_t>(number)]; }

  // The step before any rewriting that defines a value; null for inputs and weights.
  const graph_step* definition_of(const std::string& value) const;

  // definition_of by the program before moves of preparation that have a certificate: what a value is, where such a
  // move computes it in another way. For values that such a move added, the step that it added.
  const graph_step* original_definition_of(const std::string& value) const;
  // Whether a move of preparation added the value.
  bool is_added(const std::string& value) const;
  // Whether a move of preparation with a certificate computes the step's result by another operator or from other
  // operands.
  bool is_prepared(int number) const;

  // Whether a move changed what computes the step's results: the operator, or what it reads.
  bool is_rewritten(int number) const { return step_at(number).use != definition(number).use; }

  // What moves do to steps; the certificate says why no output changes. `replaced_by` replaces the step's first result;
  // "" where nothing reads a result.
  void drop(int number, const std::string& replaced_by, std::string certificate);
  void rewrite(int number, replacement with);
  const std::vector<std::string>& certificates() const { return certificates_; }  // in the order of the moves
  // The value of the task that a result is now: that of the last step which was folded into its layer, or its own.
  const std::string& meaning_of(const std::string& value) const;
  void set_group(int number, int group) { changed(number).group = group; }

  // What is known of the numbers of a value of the task, whatever its inputs hold; nothing of those that moves added.
  const number_facts& facts_of(const std::string& value) const;

  const tensor_type& type_of(const std::string& value) const;
  // The step that produces the (resolved) value; null for inputs and weights.
  const graph_step* producer(const std::string& value) const;
  // Live steps that read the value, in order.
  const std::vector<int>& readers(const std::string& value) const;
  // For each step, the live steps that produce its operands.
  const std::vector<std::vector<int>>& makers() const { return links_->makers; }
  // Resolved operands of a live step; those of the replacement where it was rewritten.
  std::vector<std::string> operands(const graph_step& s) const;
  bool is_output(const std::string& value) const;
  bool is_parameter(const std::string& value) const;  // input, weight or setup value
  bool is_constant(const std::string& value) const;   // weight or setup value: the same in every call

  // Setup steps run once and read weights only, the program's first. fresh_name: `name`, with a suffix where taken.
  const std::vector<aten_step>& setup() const { return setup_; }
  std::string fresh_name(const std::string& name) const;
  void add_setup(aten_step s, tensor_type type);

  // Whether the whole program is replayed as one CUDA graph.
  bool replayed() const { return replayed_; }
  void replay() { replayed_ = true; }

  // The order in which steps and groups run: group g as -1 - g, a step as its number. An error where groups depend on
  // each other in a cycle.
  expected<std::vector<int>> order() const;

 private:
  // Tables of the task's program.
  struct tables {
    std::vector<graph_step> steps;
    std::vector<std::vector<tensor_type>> result_types;  // by step
    std::unordered_map<std::string, int> producer;       // the step that produces a value
    mutable std::once_flag asked;                        // for facts, which most graphs do without
    mutable number_facts_by_value facts;
  };
  struct links {
    std::vector<std::vector<int>> makers;
    std::unordered_map<std::string, std::vector<int>> readers;
  };
  explicit graph(std::shared_ptr<const task> own);
  void read_steps();
  void link();  // rebuilds links_ after steps were dropped or replaced
  graph_step& changed(int number) { return steps_[static_cast<std::size_t>(number)]; }

  std::shared_ptr<const task> own_task_;  // null where the task's own program is used
  const task* task_;
  std::shared_ptr<const graph> before_;  // before the first preparation that has a certificate; null for none
  std::size_t prepared_ = 0;             // certificates of preparations
  std::shared_ptr<const tables> tables_;
  std::shared_ptr<const links> links_;
  std::vector<graph_step> steps_;
  std::vector<kernel_group> groups_;
  std::vector<std::string> certificates_;
  std::map<std::string, std::string> alias_, meaning_;
  std::vector<aten_step> setup_;
  std::map<std::string, tensor_type> setup_types_;
  bool replayed_ = false;
};

// The step's operator with typed arguments.
std::shared_ptr<const operator_use> use_of(const aten_step& text, const operator_call& call);

// Sets of steps as moves write them: "2..4+7".
std::string print_steps(const std::vector<int>& steps);
expected<std::vector<int>> parse_steps(std::string_view text);

// Typed access to arguments; empty where the argument is missing, null or of another kind.
std::optional<int64_t> integer_argument(const graph_step& s, std::string_view name);
std::optional<double> number_argument(const graph_step& s, std::string_view name);
std::optional<bool> boolean_argument(const graph_step& s, std::string_view name);
std::optional<std::string> tensor_argument_name(const graph_step& s, std::string_view name);
std::optional<std::string> string_argument(const graph_step& s, std::string_view name);
std::optional<std::vector<int64_t>> integers_argument(const graph_step& s, std::string_view name);

}  // namespace cudal1
