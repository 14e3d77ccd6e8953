// A child of a test, with its standard output on a pipe.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"

namespace cudal1 {

class store_child {
 public:
  explicit store_child(std::vector<std::string> command) {
    int ends[2];
    if (::pipe(ends) != 0) ADD_FAILURE() << "no pipe";
    output_.reset(ends[0]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 1);
      ::close(ends[0]);
      std::vector<char*> arguments;
      for (auto& c : command)
        arguments.push_back(c.data());
      arguments.push_back(nullptr);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(ends[1]);
  }
  ~store_child() { finish(true); }
  store_child(const store_child&) = delete;
  store_child& operator=(const store_child&) = delete;

  // Reads what the child writes for that long or until it ends; false if it has ended.
  bool read_for(std::chrono::microseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::microseconds>(end - std::chrono::steady_clock::now());
      if (left.count() <= 0) return true;
      pollfd p{output_.get(), POLLIN, 0};
      const timespec wait{left.count() / 1'000'000, left.count() % 1'000'000 * 1000};
      if (::ppoll(&p, 1, &wait, nullptr) <= 0) continue;
      if (!read_some()) return false;
    }
  }
  void read_all() {
    while (read_some()) {
    }
  }
  // The exit status, or minus the signal.
  int finish(bool kill) {
    if (pid_ <= 0) return status_;
    if (kill) ::kill(pid_, SIGKILL);
    read_all();
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  const std::string& text() const { return text_; }

 private:
  bool read_some() {
    char buffer[4096];
    const auto n = ::read(output_.get(), buffer, sizeof buffer);
    if (n > 0) text_.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }

  unique_fd output_;
  pid_t pid_ = -1;
  int status_ = 0;
  std::string text_;
};

}  // namespace cudal1
