// Runs a task's own program with our interpreter on given tensors, unconfined (it has ATen steps only), for comparison
// with PyTorch.
#pragma once

#include <string>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

struct replay_request {
  std::string task;     // a task file; its weights' blobs are in blobs/ beside it
  std::string tensors;  // a safetensors file with the inputs, and the weights without a content, by their names
  std::string out;      // written: a safetensors file with the outputs by their names
  std::string exact;    // "" or written: the outputs of the program in float64, from the same tensors
};
BOOST_DESCRIBE_STRUCT(replay_request, (), (task, tensors, out, exact))

struct replay_options {
  std::string device = "cpu";  // or "cuda:0"
  int threads = 1;             // on the CPU
};

bool is_replay_device(const std::string& name);

// Closes all files and frees the device's memory before it returns.
expected<void> replay(const replay_request& request, const replay_options& options);

}  // namespace cudal1
