// What all kernel forms share when they write a kernel: names, indented text, expressions.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/codegen/emit_kernel.hpp"
#include "policy/tile/index_expr.hpp"
#include "policy/tile/statement.hpp"

namespace cudal1 {

class kernel_writer {
 public:
  explicit kernel_writer(const emit_request& request);

  const kernel_body& body() const { return *request_->body; }
  const emit_request& request() const { return *request_; }
  const body_node& node(int n) const { return body().nodes[static_cast<std::size_t>(n)]; }

  // C names: a node's value, an operand's pointer, a result's pointer.
  const std::string& variable(int n) const { return variables_[static_cast<std::size_t>(n)]; }
  const std::string& pointer(int operand) const { return pointers_[static_cast<std::size_t>(operand)]; }
  const std::string& target(int result) const { return targets_[static_cast<std::size_t>(result)]; }
  bool operand_used(int operand) const { return used_operands_.contains(operand); }
  // Whether a result depends on the node.
  bool is_needed(int n) const { return needed_.contains(n); }
  // The needed loads at places that the kernel need not compute: they can be read before anything else.
  struct loads {
    std::vector<int> by_element, by_row;
  };
  loads direct_loads() const;

  // "__global__ void name(parameters) {" after the comment; `launch_bounds`: threads per block, 0 for none; `blocks`:
  // at least so many fit on a multiprocessor; `cluster`: how many blocks see each other's shared memory.
  void open_kernel(int64_t launch_bounds = 0, int64_t blocks = 1, int64_t cluster = 1);
  // The launch's arguments in the order of the parameters.
  std::vector<launch_argument> arguments() const;
  // Allocations of the results (none for one written in place).
  std::vector<step> allocations() const;
  bool in_place(const body_access& o) const {
    return !request_->options.in_place.empty() && o.value == request_->options.in_place;
  }

  // The operands that are used and the results as buffers of the kernel that is built, by their numbers.
  struct tensors {
    std::map<int, tile::buffer_id> operands, results;
  };
  tensors add_tensors(tile::kernel_builder& b) const;
  // Where a load reads, `offset` from the operand's pointer; `row`: the value that chooses the row where one does.
  tile::access place_of(int n, const tensors& at, index_expr offset,
                        const std::function<tile::value(int)>& row = {}) const;
  // A node's value by its name, or a constant's literal.
  tile::value named(int n) const {
    return tile::value::named(node(n).kind == node_kind::constant ? node(n).expression : variable(n), node(n).type);
  }
  // The value of a node, as expressions refer to it; `spell`: else as named() does.
  using value_of_node = std::function<tile::value(int)>;
  tile::value expression(int n, const value_of_node& spell) const;
  // Defines those of these nodes that are needed, each by its expression, and loads by what `load` gives.
  void define_nodes(tile::kernel_builder& b, const std::vector<int>& nodes, const value_of_node& load,
                    const value_of_node& spell = {}) const;
  // Defines a value that is one per row, after those that it is made of, unless `known` has them; reductions and
  // constants need none.
  void define_row_value(tile::kernel_builder& b, int n, std::set<int>& known, const value_of_node& load) const;
  // The coordinates of `row`, where rows have several dimensions variables r0, r1, ...; as `long long`.
  std::vector<index_expr> row_coordinates(tile::kernel_builder& b) const;
  // Pointers, NAME_r, to the row of each operand that is used and of each result: `offset` of its strides on.
  tensors row_pointers(tile::kernel_builder& b, const tensors& of,
                       const std::function<index_expr(const body_access&)>& offset) const;
  // The kernel as a whole, its statements checked; with the work that they are, or this one, or none.
  expected<emitted_kernel> finished(const tile::kernel& k);
  expected<emitted_kernel> finished(const tile::kernel& k, std::optional<kernel_work> work);

 private:
  // The text, the allocations, and the launch with a one-dimensional grid.
  emitted_kernel launched(int64_t blocks, int64_t threads) const;
  // Whether the result is one of several parts of a tensor, and the first one of them (or the only one).
  bool is_part(int result) const;
  bool is_first_part(int result) const;
  std::string unique(const std::string& wanted);
  void name_everything();

  const emit_request* request_;
  std::string text_;
  std::set<std::string> taken_;
  std::set<int> needed_, used_operands_;
  std::vector<std::string> variables_, pointers_, targets_;
};

}  // namespace cudal1
