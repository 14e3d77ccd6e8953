// The servers of these tests as child processes, each with a log of what it was asked.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "config/base/json.hpp"
#include "config/base/unique_fd.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {

// A Python program that takes --log FILE, prints its port once it listens, and ends when its standard input does.
class server_process {
 public:
  ~server_process();
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;

  int port() const { return port_; }
  std::string log_file() const { return folder_.path() + "/log.jsonl"; }
  // What was asked, in order.
  std::vector<json> begun() const { return entries("begin"); }
  std::vector<json> ended() const { return entries("end"); }
  // Waits until so many replies have ended; false after ten seconds.
  bool wait_until_ended(std::size_t replies) const;
  // The same of requests that came.
  bool wait_until_begun(std::size_t requests) const;

 protected:
  server_process() = default;
  // Throws std::runtime_error if it does not start.
  void start(const std::string& program, const std::vector<std::string>& arguments);
  const temporary_folder& folder() const { return folder_; }

 private:
  std::vector<json> entries(const std::string& event) const;
  temporary_folder folder_;
  pid_t pid_ = -1;
  unique_fd input_;  // its standard input, which ends it
  int port_ = 0;
};

struct server_certificate {
  std::string file, private_key;  // empty: http
};

class chat_server_process : public server_process {
 public:
  // `script` is the JSON text that chat_server.py documents.
  explicit chat_server_process(const std::string& script, const server_certificate& certificate = {});
  std::string url() const;  // of http
};

class proxy_process : public server_process {
 public:
  // Connects to this port of 127.0.0.1, whatever host it is asked for. `arguments` are further ones of proxy_server.py.
  explicit proxy_process(int target_port, const std::vector<std::string>& arguments = {});
};

}  // namespace cudal1
