#include <sstream>

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/interpreter/own_operators.hpp"
#include "sandbox/program/operators/operators.hpp"

namespace cudal1 {

std::vector<std::string> schema_mismatches() {
  define_own_operators();
  std::vector<std::string> mismatches;
  for (const auto& [name, info] : operator_table()) {
    const auto& ours = info.schema_text;
    const auto dot = name.find('.');
    const auto found = c10::Dispatcher::singleton().findSchema(
        {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
    if (!found) {
      mismatches.push_back(fmt::format("{}: this LibTorch has no such operator", name));
      continue;
    }
    std::ostringstream theirs;
    theirs << found->schema();
    if (theirs.str() != ours) mismatches.push_back(fmt::format("{} is {} in this LibTorch", ours, theirs.str()));
  }
  return mismatches;
}

}  // namespace cudal1
