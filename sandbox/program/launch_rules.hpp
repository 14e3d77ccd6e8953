// Which kernels a program's source defines, and whether a launch fits one of them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/program/program.hpp"
#include "sandbox/program/source.hpp"

namespace cudal1 {

class kernel_table {
 public:
  static expected<kernel_table> read(std::string_view source);

  // The kernel exists, has as many parameters as the launch has arguments, pointers where tensors are passed, and
  // scalars of the tagged kind where their type can be told (a typedef cannot). A kernel that stands twice, in the
  // branches of an #if, must fit once.
  expected<void> check(const launch_step& launch, const std::string& where) const;

 private:
  std::map<std::string, std::vector<kernel_signature>> kernels_;
};

}  // namespace cudal1
