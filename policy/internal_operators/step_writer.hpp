// Adds steps to a program that is being lowered, with new names for their results.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/graph/graph.hpp"

namespace cudal1 {

class step_writer {
 public:
  // The graph and the program must outlive it.
  step_writer(const graph& g, program& into) : graph_(&g), into_(&into) {}

  // `name`, with a suffix where the graph or this object has it already.
  std::string fresh(const std::string& name);
  void add(const char* op, std::vector<std::pair<std::string, json>> args, const std::string& result,
           const char* precision = "");

 private:
  const graph* graph_;
  program* into_;
  std::set<std::string> taken_;
};

}  // namespace cudal1
