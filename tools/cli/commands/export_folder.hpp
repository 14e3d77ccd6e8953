// The folder that `cudal1 export` writes to.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "tools/kernelbench/export_kernelbench.hpp"

namespace cudal1::cli {

class export_folder {
 public:
  enum class existing_files { refused, overwritten };
  export_folder(std::string path, existing_files existing) : path_(std::move(path)), existing_(existing) {}

  const std::string& path() const { return path_; }
  // An error with advice where it is a file, or not empty: unless it may be overwritten, or an export of models there
  // was interrupted and goes on. To be called before anything takes time.
  expected<void> check() const;
  // Creates the folder, and those of the name. Atomic: a temporary file beside it, renamed.
  expected<void> write(const output_file& file) const;

 private:
  std::string path_;
  existing_files existing_;
};

}  // namespace cudal1::cli
