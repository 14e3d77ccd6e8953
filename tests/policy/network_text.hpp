// Tasks of several steps, written in short, and programs as the operators that they call.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "sandbox/program/task.hpp"

namespace cudal1::test {

struct network {
  const char *name, *tensors, *steps, *outputs;
};

// Steps are "results = operator {arguments}", a line each.
inline task task_of(const network& n) {
  std::string steps;
  for (std::string_view rest = n.steps; !rest.empty();) {
    const auto end = rest.find('\n');
    const std::string line(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const auto equals = line.find(" = "), brace = line.find('{');
    if (equals == std::string::npos) continue;
    const auto first = line.find_first_not_of(' ');
    std::string results = line.substr(first, equals - first);
    for (auto at = results.find(' '); at != std::string::npos; at = results.find(' ', at + 4))
      results.replace(at, 1, R"(", ")");
    steps += (steps.empty() ? "" : ",\n") + fmt::format(R"({{"aten": "aten::{}", "args": {}, "out": ["{}"]}})",
                                                        line.substr(equals + 3, brace - equals - 4), line.substr(brace),
                                                        results);
  }
  const std::string text =
      fmt::format(R"({{"format": 1, "name": "{}", "summary": "s", "family": "f", {}, "steps": [{}], "outputs": {}}})",
                  n.name, n.tensors, steps, n.outputs);
  auto read = read_task(text, "cpu");
  if (!read) throw std::runtime_error(read.error().message + "\n" + text);
  return std::move(*read);
}

// "conv2d relu ": the operators that a program calls, in order.
inline std::string calls_of(const program& p) {
  std::string out;
  for (const auto& s : p.steps)
    if (const auto* call = std::get_if<aten_step>(&s)) out += call->op.substr(6) + " ";
  return out;
}

}  // namespace cudal1::test
