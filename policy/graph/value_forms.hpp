// Programs in which some values are computed in another form: their dimensions in another order, or several of them as
// one, as a view of the same memory would have them. Elementwise steps that read them follow.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/graph/program_changes.hpp"

namespace cudal1 {

// A value's dimensions in this order (empty: in their own), and then this shape. Channels, the value's dimension 1, are
// dimension 1 of the form, too.
struct value_form {
  std::vector<int64_t> order, shape;
  std::string suffix;  // of names of values in that form: "_rows"
  bool operator==(const value_form&) const = default;
  bool operator<(const value_form& other) const {
    return std::tie(order, shape, suffix) < std::tie(other.order, other.shape, other.suffix);
  }
};

// The view of a value of this type in that form; empty where it would be a copy.
std::optional<tensor_type> seen_as(const tensor_type& t, const value_form& form);

class form_writer {
 public:
  explicit form_writer(const graph& g) : g_(&g), out_(g.origin().reference) {}
  program_changes& changes() { return out_; }

  // The value, of that shape, in that form: as a step has made it, or a view.
  std::string seen(const std::string& value, const std::vector<int64_t>& shape, const value_form& form);
  // The name of a value of the task in that form, which a step is about to make. What needs the value itself reads a
  // view of it.
  std::string made(const std::string& value, const value_form& form);
  // Adds the step: in the form of an operand where it is elementwise, and its other operands lie in memory alike or do
  // not differ in space.
  void add(const graph_step& s);
  // The task with the program. errc::invalid_argument where a value of it would lie in memory in another way.
  expected<std::shared_ptr<const task>> take();

 private:
  using arguments = std::vector<std::pair<std::string, std::string>>;  // of tensors: their names and values

  bool is_form_of(const std::string& value, const value_form& form) const;
  void show(const std::string& value);
  std::optional<value_form> form_to_follow(const graph_step& s, const arguments& operands) const;
  bool can_follow(const std::string& value, const tensor_type& to, const value_form& form) const;
  std::string operand_in(const std::string& value, const std::vector<int64_t>& to, const value_form& form);
  void add_in(const value_form& form, const graph_step& s, const arguments& operands);

  struct made_value {
    value_form form;
    std::string name;
    bool is_shown = false;  // whether there is a view that is the task's value
  };
  const graph* g_;
  program_changes out_;
  std::map<std::string, made_value> made_;
  std::map<std::pair<std::string, value_form>, std::string> views_;
};

}  // namespace cudal1
