// Finds NVIDIA's headers: beside the NVRTC that this process has loaded, since both come from wheels in one
// environment.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct header_access {
  std::vector<std::string> include;   // folders for the compiler's search path, in order
  std::vector<std::string> readable;  // folders and files that the sets cover
};

class header_folders {
 public:
  // Starts from the path of the loaded libnvrtc. Errors: infrastructure.
  static expected<header_folders> find();

  // The folder of libnvrtc itself.
  const std::string& libraries() const { return libraries_; }
  // True if a set and those that it builds on are installed.
  bool has(const std::string& set) const;
  std::vector<std::string> installed() const;
  // Access for the sets of a program and the sets that they build on. Errors: unsupported (not installed; which wheel).
  expected<header_access> access(const std::vector<std::string>& sets) const;

 private:
  std::string libraries_, cuda_, cutlass_;
};

}  // namespace cudal1
