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
  if (coordinator_ <= 0) return;
  ::kill(coordinator_, SIGKILL);
  ::waitpid(coordinator_, nullptr, 0);
  if (HasFailure()) std::cerr << "---- the log of the coordinator\n" << log() << '\n';
}

std::string remote_test::log() const {
  const std::string path = data() + "/node.log";
  return std::filesystem::exists(path) ? read_file(path) : "";
}

void remote_test::start_coordinator() {
  const auto program = (std::filesystem::path(CUDAL1_PROGRAM).parent_path() / "cudal1-node").string();
  std::vector<std::string> words = {program,
                                    "--data",
                                    data(),
                                    "--listen",
                                    address(),
                                    "--device",
                                    "cpu",
                                    "--set",
                                    "device.allow_weak_confinement=true",
                                    "--set",
                                    "timing.max_seconds=2",
                                    "--set",
                                    "timing.target_half_width=0.05"};
  std::vector<char*> argv;
  for (auto& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  coordinator_ = ::fork();
  if (coordinator_ == 0) {
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      ::dup2(nowhere, fd);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  for (int tries = 0; tries < 6000 && log().find("is ready on") == std::string::npos; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_NE(log().find("is ready on"), std::string::npos) << log();
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
