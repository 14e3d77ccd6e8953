// A Python process that stays, and is spoken to in lines: requests on its standard input, answers on its standard
// output. For one thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1::cli {

struct line_process_options {
  std::string name;                // for messages: "the measuring process"
  std::vector<std::string> words;  // the program's path, then its arguments
  std::string log;                 // file that its standard error is appended to; "": it is ours
};

class line_process {
 public:
  explicit line_process(line_process_options options) : options_(std::move(options)) {}
  line_process(const line_process&) = delete;
  line_process& operator=(const line_process&) = delete;
  ~line_process() { end(); }

  // In a process group of its own, so that Ctrl-C in this terminal does not reach it. errc::infrastructure.
  expected<void> start();
  bool is_running() const { return pid_ > 0; }
  int pid() const { return pid_; }
  // Kills it and what it has started.
  void end();
  // After the end of its output: "it ended with exit code 1".
  std::string how_it_ended();

  // errc::infrastructure, also if it has ended.
  expected<void> send(const std::string& line);
  // The next line without its end; nullopt at the end of its output; errc::timeout, or errc::cancelled once `wake_fd`
  // (-1: none) is readable.
  expected<std::optional<std::string>> receive(std::chrono::steady_clock::time_point until, int wake_fd);

 private:
  const line_process_options options_;
  pid_t pid_ = -1;
  unique_fd link_;  // its standard input and output
  std::string bytes_;
};

}  // namespace cudal1::cli
