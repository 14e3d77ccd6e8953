// A temporary data folder, stores with real records, and the programs as a user runs them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/types.h>

#include "config/base/json.hpp"
#include "config/base/unique_fd.hpp"
#include "store/store.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1::cli {

template <class T>
testing::AssertionResult holds(const expected<T>& e) {
  if (e) return testing::AssertionSuccess();
  return testing::AssertionFailure() << e.error().message;
}

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);
std::string examples_folder();
std::string builtin_tasks();

// The result of a program.
struct finished_program {
  int code = -1;  // exit code, or minus the signal
  std::string out, err;
};

// A running `cudal1`, with its output on pipes that are read until it ends.
class running_program {
 public:
  // Starts it with an environment of PATH, HOME, TMPDIR, CUDAL1_TASKS and `variables`.
  explicit running_program(const std::vector<std::string>& arguments,
                           const std::map<std::string, std::string>& variables = {});
  ~running_program();
  running_program(const running_program&) = delete;
  running_program& operator=(const running_program&) = delete;

  // Reads until stdout contains `text`; false if the program ended first.
  bool wait_for(const std::string& text);
  void signal(int number) const;
  finished_program finish();

 private:
  bool read_some();
  pid_t pid_ = -1;
  unique_fd out_fd_, err_fd_;
  finished_program so_far_;
};

finished_program run_cudal1(const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& variables = {});

// Parses stdout, which --json makes one JSON document.
json document_of(const finished_program& p);
// The member at "a.b.0.c"; fails the test and returns null if there is none.
json at(const json& document, const std::string& path);

// Creates DATA/store with an experiment e1 on two tasks. diagonal_matmul: a confirmed best of 22.9x, a slower variant
// and a wrong one; softmax: a variant that is not faster than the reference.
struct prepared {
  std::string best, slower, wrong, even;      // variant ids
  std::string diagonal, softmax, experiment;  // ids
};
prepared prepare_store(const std::string& data);
// Creates a store of `cpu`: diagonal_matmul with a confirmed best of 4x; softmax with one of 3x that is the best but
// was not confirmed, [2.71, 3.4]; that task is ill-conditioned if `why` says so.
void prepare_doubtful_store(const std::string& data, const std::string& why_ill_conditioned,
                            int64_t reference_parts = 1);
// Task files of sizes for a GPU: diagonal_matmul (4096 each way), product (8192 x 4096 x 4096), softmax (16384 x 4096).
void write_gpu_tasks(const std::string& folder);
// Creates a store of a GPU, with two of those tasks: diagonal_matmul at 50x (device time 45 us), softmax at 1.01x,
// which may be noise (200 us a call), and 400 us on the device where its reference takes 180. `wrong` and `slower` are
// "".
prepared prepare_gpu_store(const std::string& data, const std::string& model);

// Creates a store of `cpu` with the task level1_023, imported from a Python file (y = 2 x) in DATA/blobs; its best is
// one kernel at 2x. Returns the id of the task.
std::string prepare_imported_store(const std::string& data);
// The same task with two confirmed variants of library calls alone: at 3x one that is off by 5e-4, at 2x a right one.
void prepare_library_store(const std::string& data);
// One imported task, whose best variant has no kernel and was to run as a graph; searched on cpu.
void prepare_graph_store(const std::string& data);

// A small diagonal matmul: an evaluation takes a fraction of a second, and row scaling is much faster.
inline constexpr const char* tiny_task =
    R"({"format": 1, "name": "tiny", "summary": "a small diagonal matmul", "family": "matmul",
  "inputs": [{"name": "a", "dtype": "float32", "shape": [192, 192], "facts": ["diagonal"]},
             {"name": "b", "dtype": "float32", "shape": [192, 256]}],
  "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"]}],
  "outputs": ["y"]})";

}  // namespace cudal1::cli
