// Runs the programs that need Python: the importer of PyTorch models and the measurement of PyTorch itself. Their
// Python must have the torch version that cudal1 was built for.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1::cli {

// $CUDAL1_PYTHON; else the Python of the environment that contains our LibTorch (in a bundle: by its link `torch`;
// in a wheel: the environment that it is in); else python3 on the PATH. errc::not_found, with advice, if none of them
// has torch 2.11, or if $CUDAL1_PYTHON is set and has not.
expected<std::string> find_python();

// The path of a program that is installed in the folder of the running one. Errors: not_found.
expected<std::string> program_beside(const std::string& name);

// The path of a file of tools/python: installed with the programs (../share/cudal1/python), else in the source tree.
expected<std::string> python_script(const std::string& name);

struct python_result {
  int code = 0;     // the exit code; 128 + n if signal n ended it
  std::string out;  // all of its standard output
};

// Runs `python script arguments...` and waits for its end. Its standard error is ours, which shows its progress; its
// standard input is empty. With `wake_fd` (of interrupt_watch) Ctrl-C is not seen by the child, which is ended once
// that is readable: errc::cancelled. Without, it reaches both processes.
expected<python_result> run_python(const std::string& python, const std::string& script,
                                   const std::vector<std::string>& arguments, int wake_fd = -1);

}  // namespace cudal1::cli
