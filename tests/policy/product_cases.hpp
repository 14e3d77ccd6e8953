// Tasks with a product, the schedules that make it a kernel, and what is expected of the programs.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1::test {

// A task of these JSON texts; throws std::runtime_error where it is none.
task made(const std::string& name, const std::string& inputs, const std::string& weights, const std::string& steps,
          const std::string& outputs);

// Texts of a tensor, of a tensor of which only a triangle is not zero, and of a step.
std::string tensor(const std::string& name, const std::string& shape, const std::string& type = "float32");
std::string triangle(const std::string& name, const std::string& shape, const std::string& fact);
std::string step(const std::string& op, const std::string& args, const std::string& out);

struct product_case {
  std::string name;
  task what;
  std::string schedule;        // of the product's kernel
  int kernels = 1, calls = 0;  // library calls, but for slices
};

// Why the schedule is refused; "" where it is not.
std::string refusal_of(const task& what, const std::string& schedule);

// Each is lowered to so many kernels and library calls, and the gates accept it on the host.
void expect_accepted(const std::vector<product_case>& all);

// Each compiles for compute capability 9.0, without spilled registers.
void expect_compiled(const std::vector<product_case>& all);

}  // namespace cudal1::test
