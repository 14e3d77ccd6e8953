// Starts another program as a child of this process.
#pragma once

#include <string>
#include <vector>

#include <spawn.h>
#include <sys/types.h>

#include "config/base/error.hpp"

namespace cudal1 {

// How a child begins. What is not said is as in this process. One start each.
class child_start {
 public:
  child_start();
  ~child_start();
  child_start(const child_start&) = delete;
  child_start& operator=(const child_start&) = delete;

  // ---- its files, in this order
  child_start& reads_nothing();  // from its standard input
  child_start& drops(int fd);    // what it writes there
  child_start& appends_to(int fd, const std::string& path);
  child_start& replaces(int fd, const std::string& path);
  child_start& has(int fd, int ours);  // it has `ours` as `fd`
  child_start& closes_from(int fd);

  // ---- signals and groups
  child_start& default_signal(int signal);  // its handling
  child_start& blocked_signal(int signal);  // and no other
  child_start& default_signals();           // none blocked, all handled as by default
  child_start& own_group();
  child_start& own_session();

  // Of variables, in place of this process's: NAME=VALUE.
  child_start& environment(std::vector<std::string> variables);

  // words[0] is its name; `program`: a path, or without / a name that is looked for in PATH. Errors: infrastructure,
  // "cannot start CALLED: REASON", where `called` is `program` if it is empty.
  expected<pid_t> run(const std::string& program, std::vector<std::string> words, const std::string& called = "");

 private:
  void set_flag(short flag);

  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
  std::vector<std::string> variables_;
  bool has_variables_ = false;
};

}  // namespace cudal1
