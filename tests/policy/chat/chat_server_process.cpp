#include "chat_server_process.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cudal1 {

namespace {

struct pipe_ends {
  unique_fd read, write;
  pipe_ends() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    read.reset(fds[0]);
    write.reset(fds[1]);
  }
};

// The first line that comes, within 20 s.
std::string first_line(int fd) {
  std::string line;
  pollfd p{fd, POLLIN, 0};
  for (char c = 0; ::poll(&p, 1, 20000) == 1 && ::read(fd, &c, 1) == 1 && c != '\n';)
    line += c;
  return line;
}

bool wait_for(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // between two looks at a file of another process
  }
  return true;
}

}  // namespace

void server_process::start(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"python3", program, "--log", log_file()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& argument : all)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  pipe_ends in, out;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.read.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  const int problem = ::posix_spawnp(&pid_, "python3", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) throw std::runtime_error("python3 cannot be started");
  out.write.reset();
  input_ = std::move(in.write);
  port_ = std::atoi(first_line(out.read.get()).c_str());
  if (port_ == 0) throw std::runtime_error(program + " did not start; it should have said why");
}

server_process::~server_process() {
  input_.reset();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

std::vector<json> server_process::entries(const std::string& event) const {
  std::vector<json> found;
  std::ifstream in(log_file());
  for (std::string line; std::getline(in, line);)
    if (auto entry = json::parse(line); entry && entry->find("event")->as_string() == event)
      found.push_back(std::move(*entry));
  return found;
}

bool server_process::wait_until_ended(std::size_t replies) const {
  return wait_for([&] { return ended().size() >= replies; });
}

bool server_process::wait_until_begun(std::size_t requests) const {
  return wait_for([&] { return begun().size() >= requests; });
}

chat_server_process::chat_server_process(const std::string& script, const server_certificate& certificate) {
  std::vector<std::string> arguments = {"--script", folder().write("script.json", script)};
  if (!certificate.file.empty())
    arguments.insert(arguments.end(), {"--certificate", certificate.file, "--private-key", certificate.private_key});
  start(CUDAL1_CHAT_SERVER, arguments);
}

std::string chat_server_process::url() const {
  return "http://127.0.0.1:" + std::to_string(port()) + "/v1";
}

proxy_process::proxy_process(int target_port, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"--target-port", std::to_string(target_port)};
  all.insert(all.end(), arguments.begin(), arguments.end());
  start(CUDAL1_PROXY_SERVER, all);
}

}  // namespace cudal1
