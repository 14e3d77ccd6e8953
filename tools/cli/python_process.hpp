// The few programs that need Python: the importer of PyTorch models and the measurement of PyTorch itself. They run
// with a Python that has the torch that this cudal1 was built for.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1::cli {

// $CUDAL1_PYTHON; else the Python of the environment that our LibTorch lies in (in a bundle: by its link `torch`); else
// python3 on the PATH. errc::not_found with what to do where none of them has torch 2.11, or where $CUDAL1_PYTHON names
// one that has not.
expected<std::string> find_python();

// The path of a file of tools/python: beside the installed programs (../share/cudal1/python), else in the source tree
// that this was built from.
expected<std::string> python_script(const std::string& name);

struct python_result {
  int code = 0;     // the exit code; 128 + n where signal n ended it
  std::string out;  // all of its standard output
};

// `python script arguments...`, until it ends. Its standard error is ours, so its progress is seen as it comes; it gets
// nothing to read. Ctrl-C reaches it as it reaches us.
expected<python_result> run_python(const std::string& python, const std::string& script,
                                   const std::vector<std::string>& arguments);

}  // namespace cudal1::cli
