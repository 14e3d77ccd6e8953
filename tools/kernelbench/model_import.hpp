// PyTorch models as tasks: runs tools/python/import_tasks.py, and checks its output by our own rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

// How the models' Python is executed.
struct model_execution {
  bool confined = false;     // as compilers are: it reads everything, writes to the tasks' folder, and has no network
  bool show_output = false;  // what it prints is seen on standard error
  int wake_fd = -1;          // of interrupt_watch: once it is readable the import ends, errc::cancelled
};

// A model as a command line names it.
struct model_choice {
  std::string source;               // *.py, a folder of them, *.jsonl, FILE.py:NAME, package.module:NAME
  std::vector<std::string> inputs;  // what gives example inputs, in place of what is beside the model
  std::string weights;              // a file with the model's state_dict, or ""
  std::string module = {};          // the path of one module of the model, alone; "": the whole
  model_execution execution = {};
};

struct import_request {
  std::vector<std::string> sources;  // as in model_choice
  std::string out;                   // gets NAME.json and blobs/
  std::vector<std::string> only, inputs;
  std::string weights, module;
  std::optional<int64_t> level, jobs;
  model_execution execution = {};
  std::string workloads = {};  // a file of those of a definition; "": beside it
};

struct imported_task {
  std::string name, file, family;
  int64_t inputs = 0, weights = 0, weight_bytes = 0, steps = 0;
  bool verified = false;               // the steps gave what the model gives, on the CPU
  std::string uncompared;              // why that is not known; "" if it is
  double rounding = 0;                 // the largest difference, over the tensor's largest value; 0: the same bits
  int64_t rewritings = 0;              // of the recorded steps, that were run before and after
  std::vector<std::string> unchecked;  // those that are too large for that, or cannot be run on a CPU
  std::vector<std::string> notes;      // what the task does otherwise than the model, or takes from records
};
BOOST_DESCRIBE_STRUCT(imported_task, (),
                      (name, file, family, inputs, weights, weight_bytes, steps, verified, uncompared, rounding,
                       rewritings, unchecked, notes))

struct refused_problem {
  std::string name, reason;
};
BOOST_DESCRIBE_STRUCT(refused_problem, (), (name, reason))

// A file beside the source that an import has read: a module that it imports, a checkpoint.
struct read_file_state {
  std::string path;
  int64_t bytes = 0, modified_ns = 0;
};
BOOST_DESCRIBE_STRUCT(read_file_state, (), (path, bytes, modified_ns))

struct import_report {
  std::vector<imported_task> imported;
  std::vector<refused_problem> refused;
  std::vector<read_file_state> files;
};
BOOST_DESCRIBE_STRUCT(import_report, (), (imported, refused, files))

// "NAME: what its task does otherwise than the model".
std::vector<std::string> notes_of(const import_report& report);

// Runs the sources' Python, as the user. A problem that cannot become a task is in `refused` with the
// reason; an error concerns the whole import: no Python, missing sources.
expected<import_report> import_models(const import_request& request);

// The flags --inputs, --weights and --module.
void add_model_options(CLI::App& command, std::vector<std::string>& inputs, std::string& weights, std::string& module);
// The flags --confined and --show-output.
void add_execution_options(CLI::App& command, model_execution& execution);
// Says, once for each data folder, that the models' Python is executed without confinement.
void warn_of_execution(const context& c, const model_execution& execution);

// True if a command-line argument names PyTorch models: *.py, *.jsonl, a folder with *.py somewhere in it,
// FILE.py:NAME, package.module:NAME.
bool is_model_source(const std::string& name);

struct imported_models {
  std::string folder;  // of the task files
  import_report report;
  bool fresh = false;  // imported just now
};

// errc::not_found if it is a file or folder that does not exist.
expected<void> check_source(const std::string& source);

// The tasks of one source in DATA/imported, imported if they are not there yet, if a file that the import has read has
// changed, or if something was refused. The folder's name is a hash of everything else that determines the result: the
// sources' bytes, the importer's, the operators that tasks may have.
expected<imported_models> imported_once(const std::string& data, const model_choice& model);

}  // namespace cudal1::cli
