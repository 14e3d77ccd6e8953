// Starts cudal1-worker and communicates with its zygote.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "sandbox/isolation/frame.hpp"
#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

// The path of `program`: in the folder of `wanted` (the path of a cudal1-worker), or, if that is "", of this program.
expected<std::string> find_worker(const std::string& wanted, const std::string& program = "cudal1-worker");

// Starts `worker ROLE SETTINGS` with `socket` as its descriptor 3 and exactly this environment. Returns its process id;
// the caller reaps it.
expected<pid_t> start_worker(const std::string& worker, const std::string& role, const std::string& settings,
                             const std::vector<std::string>& environment, int socket);

// The error for a worker whose first frame did not come: errc::not_found with the loader's message and advice if a
// library is missing, else `e`. The caller still reaps the process.
error not_started(const std::string& worker, pid_t pid, error e);

// Sends SIGKILL to the process of the descriptor. No effect if it has ended.
void kill_process(int pidfd);

struct child_process {
  int pid = 0;
  unique_fd pidfd;
};

// The session's connection to a zygote. The zygote and all its children end with this object.
class zygote_link {
 public:
  // Starts it and waits for its report. `environment`: NAME=value, in addition to that of every worker.
  static expected<zygote_link> start(const std::string& worker, const worker_settings& settings,
                                     const std::vector<std::string>& environment = {});
  zygote_link(zygote_link&& other) noexcept { *this = std::move(other); }
  zygote_link& operator=(zygote_link&& other) noexcept;
  ~zygote_link();

  const zygote_report& report() const { return report_; }
  int pid() const { return pid_; }
  int socket() const { return socket_.get(); }

  expected<child_process> spawn(const std::string& role, std::span<const int> descriptors);
  // Call it when socket() is readable: keeps an exit notice; any other frame, and the end of the zygote, are errors.
  expected<void> take_notice();
  // How that child ended. errc::timeout if no notice comes within the limit.
  expected<exit_notice> wait_exit(int pid, std::chrono::milliseconds limit);

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
