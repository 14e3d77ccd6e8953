// Judges other people's kernels: runs tools/python/audit_submissions.py, whose referee starts confined workers.
#pragma once

#include <string>

#include "tools/cli/command.hpp"

namespace cudal1::cli {

struct submission_audit_options {
  std::string submissions;  // a Python file, a folder, a run folder or JSON lines
  std::string problems;     // "": beside them, or in the records
  std::string device = "cpu";
  std::string out;           // the folder that keeps verdicts; "": none
  std::string eval_results;  // the file that KernelBench's scripts read; "": none
  int pools = 3;
  bool json = false, unconfined = false;
};

// Prints the table or the JSON document, keeps the verdicts whose problem is a task of the store, and returns the exit
// code: success where all are accepted, negative where one is not, usage where nothing can be read, infrastructure
// where the machine cannot confine a worker.
expected<int> audit_submissions(const submission_audit_options& o, const context& c);

}  // namespace cudal1::cli
