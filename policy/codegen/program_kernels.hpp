// The kernels of a program that is being lowered. Layers of a network repeat: kernels that are equal but for the names
// of their values are one kernel, which is launched several times and compiled once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"

namespace cudal1 {

struct template_kernel;

class program_kernels {
 public:
  // The target and the program must outlive it.
  program_kernels(const lowering_target& target, program& out) : target_(&target), out_(&out) {}

  // Adds the kernel to the program's source, unless an equal one is there, and its steps of set-up to the program.
  // Returns its allocations and launches, for the caller to insert. Errors as lowering_target::emit.
  expected<std::vector<step>> add(const emit_request& request);
  // Adds the kernel of a template in the same way, and returns its launch without arguments. errc::invalid_program
  // where a check of its statements fails.
  expected<launch_step> add(const template_kernel& kernel, const std::string& name);
  // The program, for further steps.
  program& into() { return *out_; }
  const kernel_works& work() const { return work_; }

 private:
  const lowering_target* target_;
  program* out_;
  std::map<std::string, std::string> names_;  // of the kernels, by their text with neutral names
  kernel_works work_;
};

}  // namespace cudal1
