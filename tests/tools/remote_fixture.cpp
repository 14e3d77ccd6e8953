#include "tests/tools/remote_fixture.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/actors/raw_peers.hpp"

namespace cudal1::cli {

remote_test::remote_test() : port_(listening_socket().port) {
  EXPECT_EQ(run_here({"cluster", "init"}).code, 0);
  identity_ = certificate("ann", {"--client"});
}

remote_test::~remote_test() {
  auto nodes = machines_;
  nodes["head"] = coordinator_;
  for (const auto& [name, pid] : nodes) {
    if (pid <= 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    const std::string path = data_of(name) + "/node.log";
    if (HasFailure() && std::filesystem::exists(path))
      std::cerr << "---- the log of " << name << '\n' << read_file(path) << '\n';
  }
}

std::string remote_test::log() const {
  const std::string path = data() + "/node.log";
  return std::filesystem::exists(path) ? read_file(path) : "";
}

pid_t remote_test::start_node(std::vector<std::string> arguments, const std::vector<std::string>& settings,
                              const std::map<std::string, std::string>& variables) {
  arguments.insert(arguments.begin(), (std::filesystem::path(CUDAL1_PROGRAM).parent_path() / "cudal1-node").string());
  for (const char* setting :
       {"device.allow_weak_confinement=true", "timing.max_seconds=2", "timing.target_half_width=0.05"})
    arguments.insert(arguments.end(), {"--set", setting});
  for (const auto& setting : settings)
    arguments.insert(arguments.end(), {"--set", setting});
  std::vector<char*> argv;
  for (auto& word : arguments)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (const auto& [name, value] : variables)
      ::setenv(name.c_str(), value.c_str(), 1);
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      ::dup2(nowhere, fd);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return pid;
}

void remote_test::start_coordinator(const std::string& device, const std::vector<std::string>& settings) {
  coordinator_ = start_node({"--data", data(), "--listen", address(), "--device", device}, settings, {});
  for (int tries = 0; tries < 6000 && log().find("is ready on") == std::string::npos; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_NE(log().find("is ready on"), std::string::npos) << log();
}

void remote_test::start_machine(const std::string& name, const std::vector<std::string>& settings,
                                const std::map<std::string, std::string>& variables) {
  machines_[name] =
      start_node({"--data", data_of(name), "--join", address(), "--identity", certificate(name, {}), "--device", "cpu"},
                 settings, variables);
  const auto is_ready = [&] { return log().find("device " + name + "/cpu is ready") != std::string::npos; };
  for (int tries = 0; tries < 6000 && !is_ready(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(is_ready());
}

void remote_test::signal_machine(const std::string& name, int signal) const {
  ASSERT_EQ(::kill(machines_.at(name), signal), 0);
}

std::string remote_test::certificate(const std::string& name, const std::vector<std::string>& flags) const {
  const std::string path = folder_ / (name + ".pem");
  std::vector<std::string> words = {"cluster", "add", name, "--out", path};
  words.insert(words.end(), flags.begin(), flags.end());
  const auto made = run_here(words);
  EXPECT_EQ(made.code, 0) << made.err;
  return path;
}

std::vector<std::string> remote_test::elsewhere(const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = {"--cluster", address(), "--identity", identity_};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

finished_program remote_test::run_elsewhere(const std::vector<std::string>& arguments) const {
  return run_cudal1(elsewhere(arguments), variables());
}

finished_program remote_test::run_here(std::vector<std::string> arguments) const {
  arguments.insert(arguments.end(), {"--data", data()});
  return run_cudal1(arguments);
}

}  // namespace cudal1::cli
