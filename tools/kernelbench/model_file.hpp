// One task's variant as a Python file for KernelBench: its own Model, and ModelNew, whose forward is the program. The
// file needs only PyTorch and a CUDA toolkit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/program/task.hpp"

namespace cudal1::kernelbench {

// What an exported module does where gradients are needed: backward() raises an error, or Model's forward runs.
BOOST_DEFINE_ENUM_CLASS(gradients, error, eager)

struct exported_variant {
  std::string id;                        // of the program
  std::string program;                   // canonical text
  std::vector<std::string> explanation;  // one line per move
  std::string measured;                  // "5.2x [5.07, 5.34] on cuda:0 (NVIDIA H200)", one line; "" for nothing
  std::string source;                    // the problem's, as it is quoted (tools/python/quote_source.py)
  std::string capability;                // of the GPU that it was measured on: "9.0"; "" for none
  std::string cudnn = {};                // its version where it was measured: "9.19.0"; "" for none
  std::string warning = {};              // what its user must know, one line; "" for nothing
  gradients needed_gradients = gradients::error;
};

// "level_1_problem_23_sample_0_kernel.py"; of a model of the user's own, its name: "my_model_kernel.py".
std::string file_name(const task& t);

// The Python file that the task was imported from, byte for byte. `blobs`: the folder of the blobs.
expected<std::string> problem_source(const task& t, const std::string& blobs);

// Whether all steps call PyTorch's libraries: such a file has no `__global__`, which KernelBench's static checker
// refuses.
expected<bool> is_library_only(const std::string& program);

// `blobs`: the folder of the blobs that the task refers to. Errors are one sentence each: the task has no Python source
// (built in), a weight has no name in the module, a constant is too large to be in a file.
expected<std::string> model_file(const task& t, const exported_variant& v, const std::string& blobs);

// The other files in a folder of such files: check.py, which checks and times them, and the modules of tools/python
// that it uses for timing.
struct support_file {
  std::string_view name, text;
};
std::vector<support_file> support_files();

// A Python literal of any text.
std::string python_text(std::string_view text);

}  // namespace cudal1::kernelbench
