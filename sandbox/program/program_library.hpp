// The library of programs written by hand for the built-in tasks: config/programs/PROFILE/NAME.cu1, where NAME is a
// task's name, or TASK_VARIANT.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sandbox/program/check.hpp"

namespace cudal1 {

struct library_program {
  std::string name;  // of its file, without .cu1
  std::string task;  // the built-in task that it computes, at the sizes of the profile
  checked_program program;
};

// All programs for the kinds of devices with these sizes ("cpu", "cuda"), by name. Errors name the file: io_error,
// not_found (no such profile; no built-in task of that name), those of check_program_text.
expected<std::vector<library_program>> load_program_library(std::string_view profile);
// Where it is: beside the installed binaries (../share/cudal1/programs), else in the source tree that this was built
// from.
expected<std::string> program_library_folder();

}  // namespace cudal1
