// Where NVIDIA's headers lie: beside the NVRTC that this process runs with, since both come from wheels of one
// installation.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct header_access {
  std::vector<std::string> include;   // folders for the compiler's search path, in order
  std::vector<std::string> readable;  // what the sets cover: folders and files
};

class header_folders {
 public:
  // By the place of the loaded libnvrtc. Errors: infrastructure.
  static expected<header_folders> find();

  // The folder of libnvrtc itself.
  const std::string& libraries() const { return libraries_; }
  // Whether each folder of a set is there. What is missing comes with the wheels that the message of access() names.
  bool has(const std::string& set) const;
  std::vector<std::string> installed() const;
  // For the sets of a program, with those that they build on. Errors: unsupported (not installed; which wheel).
  expected<header_access> access(const std::vector<std::string>& sets) const;

 private:
  std::string libraries_, cuda_, cutlass_;
};

}  // namespace cudal1
