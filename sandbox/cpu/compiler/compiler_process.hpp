// Runs a compiler: confined, limited in time and memory, killed with all its children at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct child_options {
  std::vector<std::string> command;   // command[0] is a path
  std::vector<std::string> readable;  // folders beyond the system's that it may read
  std::string folder;                 // the only one that it may write, and its TMPDIR
  std::string input;                  // its standard input
  double time_limit_s = 20;           // of the clock on the wall
  int64_t memory_limit_bytes = 0;     // of address space, each process; 0 for no limit
  int64_t file_limit_bytes = 0;       // of each file that it writes; 0 for no limit
  int64_t output_limit_bytes = 16 << 10;
  bool allow_weak_confinement = false;
};

struct child_result {
  int exit_code = -1;  // -1 where it did not exit
  int signal = 0;      // that ended it
  bool timed_out = false;
  std::string output;  // standard output and error, cut at the limit
};

// May be called from several threads. Errors: infrastructure (no process, no such program, a confinement that the
// system refuses). Whatever the child does is a result.
expected<child_result> run_child(const child_options& options);

// A folder of one's own below TMPDIR (or /tmp), removed with all it holds.
class private_folder {
 public:
  static expected<private_folder> create();
  private_folder(private_folder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  private_folder& operator=(private_folder&&) = delete;
  ~private_folder();
  const std::string& path() const { return path_; }

 private:
  explicit private_folder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace cudal1
