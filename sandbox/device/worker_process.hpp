// Starting cudal1-worker, and talking to its zygote.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// The path of that program: beside `wanted` (the path of a cudal1-worker), else beside this program.
expected<std::string> find_worker(const std::string& wanted, const std::string& program = "cudal1-worker");

// Starts `worker ROLE SETTINGS` with `socket` as its descriptor 3 and this environment alone; its process id. The
// caller reaps it.
expected<pid_t> start_worker(const std::string& worker, const std::string& role, const std::string& settings,
                             const std::vector<std::string>& environment, int socket);

// What to tell of a worker whose first frame did not come, by how it ended: errc::not_found with the loader's words and
// what to do where it misses a library, else `e`. The process is left to be reaped.
error not_started(const std::string& worker, pid_t pid, error e);

// Sends SIGKILL to the process that the descriptor stands for; one that has ended already is left alone.
void kill_process(int pidfd);

struct child_process {
  int pid = 0;
  unique_fd pidfd;
};

// The session's end of a zygote. It ends with this object, and all its children with it.
class zygote_link {
 public:
  // Starts it and waits for its report.
  // `environment`: NAME=value, beside what every worker gets.
  static expected<zygote_link> start(const std::string& worker, const worker_settings& settings,
                                     const std::vector<std::string>& environment = {});
  zygote_link(zygote_link&& other) noexcept { *this = std::move(other); }
  zygote_link& operator=(zygote_link&& other) noexcept;
  ~zygote_link();

  const zygote_report& report() const { return report_; }
  int pid() const { return pid_; }
  int socket() const { return socket_.get(); }

  expected<child_process> spawn(const std::string& role, std::span<const int> descriptors);
  // Something is to be read from socket(): a notice is kept, anything else is an error, as is the end of the zygote.
  expected<void> take_notice();
  // How that child ended. errc::timeout where nothing is known within the limit.
  expected<exit_notice> wait_exit(int pid, std::chrono::milliseconds limit);
  bool knows_end_of(int pid) const { return ended_.contains(pid); }

 private:
  zygote_link() = default;
  void end();
  expected<frame> next(deadline until);

  int pid_ = 0;
  unique_fd socket_;
  zygote_report report_;
  std::map<int, exit_notice> ended_;
};

}  // namespace cudal1
