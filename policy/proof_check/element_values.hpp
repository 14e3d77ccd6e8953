// The values of a graph, one element at a time and in float64, computed from the definitions of its operators. Shares
// nothing with the proofs, the code generator and the kernels, so that it can contradict them.
//
// Tensors are never stored: an element is computed from the elements that it needs, down to values that are not
// computed, whose elements are random numbers by their name and place.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// Where an element is: one index for each dimension.
struct place {
  static constexpr std::size_t most_dims = 12;
  std::array<int64_t, most_dims> at{};
  std::size_t dims = 0;

  int64_t& operator[](std::size_t d) { return at[d]; }
  int64_t operator[](std::size_t d) const { return at[d]; }
};

// Row-major numbers of elements, and back.
int64_t number_of(const place& p, const std::vector<int64_t>& shape);
place place_of(int64_t number, const std::vector<int64_t>& shape);

class element_values;

// A step of which an element is wanted, as the rules of operators see it.
class element_step {
 public:
  element_step(element_values& values, graph_step step) : values_(&values), step_(std::move(step)) {}

  const graph_step& step() const { return step_; }
  const tensor_type& result() const { return step_.result_types[0]; }
  bool has(std::string_view argument) const { return tensor_argument_name(step_, argument).has_value(); }
  const tensor_type& type(std::string_view argument) const;
  // An element of an operand; that at the place to which the operand is broadcast; the same of a list's operand. An
  // argument that is a number has that value everywhere.
  double element(std::string_view argument, const place& p) const;
  double broadcast(std::string_view argument, const place& p) const;
  double element_of_list(std::string_view argument, std::size_t item, const place& p) const;
  // A number, or what it is where the argument is missing or null.
  double number(std::string_view argument, double otherwise) const;
  int64_t integer(std::string_view argument, int64_t otherwise) const;
  bool boolean(std::string_view argument) const;
  std::vector<int64_t> integers(std::string_view argument) const;  // empty where it is missing or null
  // The argument as a dimension of an operand of `dims` dimensions.
  std::size_t dim(std::string_view argument, int64_t otherwise, std::size_t dims) const;
  // Says that the element cannot be computed; NaN.
  double cannot(const std::string& why) const;

 private:
  std::size_t operand(std::string_view argument, std::size_t item) const;  // as element_values::id_of

  element_values* values_;
  graph_step step_;
  mutable std::vector<std::pair<std::string_view, std::vector<std::size_t>>> operands_;
};

using element_rule = double (*)(const element_step&, const place&);

class element_values {
 public:
  enum class version { of_task, of_graph };  // as the task's program defines them; as moves left the graph

  struct options {
    version which = version::of_task;
    // Values, by their names in the task, that are computed from their operands; all others are random.
    const std::set<std::string>* computed = nullptr;
    uint64_t seed = 0;
    double spread = 2;          // random numbers are in [-spread, spread)
    int64_t most_elements = 0;  // after so many it gives up
  };

  element_values(const graph& g, options o) : graph_(&g), options_(o) {}
  element_values(const element_values&) = delete;
  element_values& operator=(const element_values&) = delete;

  double at(const std::string& value, const place& p) { return at(id_of(value), p); }
  double at(std::size_t id, const place& p);
  // The value that the live or replaced step computes, whatever its name stands for.
  double of_step(int number, const place& p);

  std::size_t id_of(const std::string& value);
  // The first reason for which an element was not computed; "" if all were.
  const std::string& problem() const { return problem_; }
  // Operators of computed values that have no rule, so that random numbers took their place.
  const std::set<std::string>& unknown() const { return unknown_; }
  int64_t elements() const { return elements_; }
  void give_up(const std::string& why);

 private:
  struct node {
    enum class kind { random, step, same };
    kind what = kind::random;
    const tensor_type* type = nullptr;
    uint64_t hash = 0;        // of a random value's name
    std::vector<fact> facts;  // that the task declares of it
    std::size_t same_as = 0;
    element_step* step = nullptr;
    element_rule rule = nullptr;
  };

  node node_of(const std::string& value);
  node random_node(const std::string& value) const;
  node step_node(const std::string& value, const graph_step& s);
  const graph_step* set_up_step(const std::string& value);
  double random_element(const node& n, const place& p) const;

  const graph* graph_;
  options options_;
  std::unordered_map<std::string, std::size_t> ids_;
  std::deque<node> nodes_;
  std::deque<element_step> steps_;
  std::deque<graph_step> set_up_;
  std::set<std::string> unknown_;
  std::string problem_;
  int64_t elements_ = 0;
};

}  // namespace cudal1
