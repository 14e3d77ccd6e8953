// Tasks on which one proof alone decides, each beside a twin on which it must not apply.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1::test {

// A task in short: tensors as "name [shape]", or "name [shape] facts"; steps as "result = operator(arguments)".
struct short_task {
  std::vector<std::string> inputs, weights, steps;
  std::string outputs = R"("y")";
};

task read(const short_task& t);

struct proof_case {
  const char* name;
  const char* move;  // the only kind that the proofs of `applies` consist of
  short_task applies, twin;
};

void PrintTo(const proof_case& c, std::ostream* out);
std::vector<proof_case> proof_cases();

}  // namespace cudal1::test
