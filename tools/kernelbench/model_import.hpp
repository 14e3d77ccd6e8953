// PyTorch models as tasks: runs tools/python/import_tasks.py, and checks its output by our own rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1::cli {

struct import_request {
  std::vector<std::string> sources;  // *.py, folders of them, *.jsonl
  std::string out;                   // gets NAME.json and blobs/
  std::vector<std::string> only;
  std::optional<int64_t> level, jobs;
};

struct imported_task {
  std::string name, file, family;
  int64_t inputs = 0, weights = 0, weight_bytes = 0, steps = 0;
  bool verified = false;           // the steps gave what the model gives, on the CPU
  double rounding = 0;             // the largest difference, over the tensor's largest value; 0: the same bits
  std::vector<std::string> notes;  // what the task does otherwise than the model, or takes from records
};
BOOST_DESCRIBE_STRUCT(imported_task, (),
                      (name, file, family, inputs, weights, weight_bytes, steps, verified, rounding, notes))

struct refused_problem {
  std::string name, reason;
};
BOOST_DESCRIBE_STRUCT(refused_problem, (), (name, reason))

struct import_report {
  std::vector<imported_task> imported;
  std::vector<refused_problem> refused;
};
BOOST_DESCRIBE_STRUCT(import_report, (), (imported, refused))

// Runs the sources' Python, unconfined, as the user. A problem that cannot become a task is in `refused` with the
// reason; an error concerns the whole import: no Python, missing sources.
expected<import_report> import_models(const import_request& request);

// True if a command-line argument names PyTorch models: *.py, *.jsonl, a folder with *.py somewhere in it.
bool is_model_source(const std::string& name);

struct imported_models {
  std::string folder;  // of the task files
  import_report report;
  bool fresh = false;  // imported just now
};

// The tasks of one source in DATA/imported, imported if they are not there yet. The folder's name is a hash of
// everything that determines the result: the sources' bytes, the importer's, the operators that tasks may have.
expected<imported_models> imported_once(const std::string& data, const std::string& source);

}  // namespace cudal1::cli
