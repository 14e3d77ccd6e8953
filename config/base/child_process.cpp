#include "config/base/child_process.hpp"

#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves its declaration to us

namespace cudal1 {
namespace {

// Pointers into `words`; the last is null.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (auto& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

sigset_t only(int signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  return set;
}

}  // namespace

child_start::child_start() {
  ::posix_spawn_file_actions_init(&files_);
  ::posix_spawnattr_init(&attributes_);
}
child_start::~child_start() {
  ::posix_spawn_file_actions_destroy(&files_);
  ::posix_spawnattr_destroy(&attributes_);
}

child_start& child_start::reads_nothing() {
  ::posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  return *this;
}

child_start& child_start::drops(int fd) {
  ::posix_spawn_file_actions_addopen(&files_, fd, "/dev/null", O_WRONLY, 0);
  return *this;
}

child_start& child_start::appends_to(int fd, const std::string& path) {
  ::posix_spawn_file_actions_addopen(&files_, fd, path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  return *this;
}

child_start& child_start::replaces(int fd, const std::string& path) {
  ::posix_spawn_file_actions_addopen(&files_, fd, path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  return *this;
}

child_start& child_start::has(int fd, int ours) {
  ::posix_spawn_file_actions_adddup2(&files_, ours, fd);
  return *this;
}

child_start& child_start::closes_from(int fd) {
  ::posix_spawn_file_actions_addclosefrom_np(&files_, fd);
  return *this;
}

void child_start::set_flag(short flag) {
  short flags = 0;
  ::posix_spawnattr_getflags(&attributes_, &flags);
  ::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags | flag));
}

child_start& child_start::default_signal(int signal) {
  const sigset_t set = only(signal);
  ::posix_spawnattr_setsigdefault(&attributes_, &set);
  set_flag(POSIX_SPAWN_SETSIGDEF);
  return *this;
}

child_start& child_start::blocked_signal(int signal) {
  const sigset_t set = only(signal);
  ::posix_spawnattr_setsigmask(&attributes_, &set);
  set_flag(POSIX_SPAWN_SETSIGMASK);
  return *this;
}

child_start& child_start::default_signals() {
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes_, &none);
  ::posix_spawnattr_setsigdefault(&attributes_, &all);
  set_flag(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  return *this;
}

child_start& child_start::own_group() {
  ::posix_spawnattr_setpgroup(&attributes_, 0);
  set_flag(POSIX_SPAWN_SETPGROUP);
  return *this;
}

child_start& child_start::own_session() {
  set_flag(POSIX_SPAWN_SETSID);
  return *this;
}

child_start& child_start::environment(std::vector<std::string> variables) {
  variables_ = std::move(variables);
  has_variables_ = true;
  return *this;
}

expected<pid_t> child_start::run(const std::string& program, std::vector<std::string> words,
                                 const std::string& called) {
  const auto arguments = pointers_to(words), variables = pointers_to(variables_);
  pid_t pid = -1;
  const int problem = ::posix_spawnp(&pid, program.c_str(), &files_, &attributes_, arguments.data(),
                                     has_variables_ ? variables.data() : environ);
  if (problem != 0)
    return fail(errc::infrastructure, "cannot start {}: {}", called.empty() ? program : called, std::strerror(problem));
  return pid;
}

}  // namespace cudal1
