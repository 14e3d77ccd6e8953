// chat_server.py as a child process, with a script and a log of what it was asked.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "config/base/json.hpp"
#include "config/base/unique_fd.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {

struct server_certificate {
  std::string file, private_key;  // empty: http
};

class chat_server_process {
 public:
  // `script` is the JSON text that chat_server.py documents. Throws std::runtime_error if the server does not start.
  explicit chat_server_process(const std::string& script, const server_certificate& certificate = {});
  ~chat_server_process();
  chat_server_process(const chat_server_process&) = delete;
  chat_server_process& operator=(const chat_server_process&) = delete;

  int port() const { return port_; }
  std::string url() const;  // of http
  std::string log_file() const { return folder_.path() + "/log.jsonl"; }
  // What was asked, in order.
  std::vector<json> begun() const { return entries("begin"); }
  std::vector<json> ended() const { return entries("end"); }
  // Waits until so many replies have ended; false after ten seconds.
  bool wait_until_ended(std::size_t replies) const;
  // The same of requests that came.
  bool wait_until_begun(std::size_t requests) const;

 private:
  std::vector<json> entries(const std::string& event) const;
  temporary_folder folder_;
  pid_t pid_ = -1;
  unique_fd input_;  // its standard input, which ends it
  int port_ = 0;
};

}  // namespace cudal1
