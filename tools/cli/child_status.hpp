// How a child process has ended, as a shell says it.
#pragma once

#include <cerrno>

#include <sys/wait.h>

namespace cudal1::cli {

// The exit code; 128 + n if signal n ended it.
inline int shell_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Waits for its end; the same.
inline int shell_code_at_end(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return shell_code(status);
}

}  // namespace cudal1::cli
