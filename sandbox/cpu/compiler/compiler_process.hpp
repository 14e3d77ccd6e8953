// Runs a compiler, or a check that compiles: confined, limited in time and memory, killed with all its children.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct child_options {
  std::vector<std::string> command;        // command[0] is a path
  std::vector<std::string> readable;       // folders that it may read besides the system's
  std::string folder;                      // that it may write, and its TMPDIR
  std::vector<std::string> writable = {};  // other folders that it may write
  std::string input;                       // its standard input
  double time_limit_s = 20;                // wall time
  int64_t memory_limit_bytes = 0;          // address space of each process; 0 for no limit
  int64_t file_limit_bytes = 0;            // size of each file that it writes; 0 for no limit
  int64_t output_limit_bytes = 16 << 10;
  bool allow_weak_confinement = false;
  bool confined = true;  // false: only the limits of time apply
  // "NAME=value", beside LC_ALL and TMPDIR.
  std::vector<std::string> environment = {"PATH=/usr/bin:/bin"};
  int64_t open_files = 64;
  double cpu_time_limit_s = 0;  // of each process; 0: as much as `time_limit_s`
  int stop_fd = -1;             // ends it as soon as this is readable
};

struct child_result {
  int exit_code = -1;  // -1 if a signal ended it
  int signal = 0;      // the signal that ended it, or 0
  bool timed_out = false, stopped = false;
  std::string output;  // standard output and error, cut at the limit
};

// Thread-safe. Errors: infrastructure (no process, no such program, a confinement that the system refuses). Whatever
// the compiler itself does is a result, not an error.
expected<child_result> run_child(const child_options& options);

// A private folder below TMPDIR (or /tmp), removed with its contents.
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
