// Python files with ModelNew, judged against a task as strictly as variants are: the referee of
// tools/python/submissions, as a process that stays.
#pragma once

#include <memory>
#include <string>

#include "config/base/error.hpp"
#include "sandbox/program/task.hpp"
#include "tools/kernelbench/submission_verdict.hpp"

namespace cudal1::cli {
class line_process;
}

namespace cudal1::kernelbench {

// What a ModelNew of the task has to compute: Python with Model and get_inputs, as in KernelBench. The file that a
// whole model was imported from; else a text of the task's own steps. `blobs`: the folder of the blobs. errc::not_found
// without a Python with torch; errc::unsupported, with the reason, for a task that no text can hold.
expected<std::string> python_problem(const task& t, const std::string& blobs);

// For one thread at a time.
class submission_referee {
 public:
  // `log`: a file for what Python says; "": standard error. Python is started by the first call.
  explicit submission_referee(std::string log);
  ~submission_referee();
  // `name`: for the verdict. Takes seconds on `device`, which must be cpu (errc::unsupported). errc::unsupported too
  // where the machine cannot confine Python, or the task's Model cannot be compared; errc::cancelled once `wake_fd`
  // (-1: none) is readable; errc::infrastructure and errc::timeout if the referee itself fails. After each of them the
  // next call starts anew.
  expected<submission_verdict> judge(const std::string& name, const std::string& source, const task& t,
                                     const std::string& blobs, const std::string& device, int wake_fd);

 private:
  expected<void> start(int wake_fd);
  const std::string log_;
  std::unique_ptr<cli::line_process> process_;
};

}  // namespace cudal1::kernelbench
