// A coordinator that listens on loopback, and `cudal1 --cluster` as a user of another machine runs it: with a home
// folder and a certificate of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/types.h>

#include "actors/transport/certificates.hpp"
#include "tests/tools/tools_fixture.hpp"

namespace cudal1::cli {

class remote_test : public testing::Test {
 protected:
  remote_test();
  ~remote_test() override;

  std::string data() const { return folder_ / "head"; }  // of the coordinator
  std::string home() const { return folder_ / "home"; }  // the data folder of the user elsewhere
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string log() const;
  std::string data_of(const std::string& machine) const { return folder_ / machine; }

  // Starts the coordinator, and waits until it is ready.
  void start_coordinator(const std::string& device = "cpu", const std::vector<std::string>& settings = {});
  // Starts a machine with a cpu that joins it, and waits until its device is ready. `variables`: added to its
  // environment.
  void start_machine(const std::string& name, const std::vector<std::string>& settings = {},
                     const std::map<std::string, std::string>& variables = {});
  void signal_machine(const std::string& name, int signal) const;
  // Makes an identity file with `cudal1 cluster add`; its path.
  std::string certificate(const std::string& name, const std::vector<std::string>& flags) const;

  // The words of a command of the user elsewhere.
  std::vector<std::string> elsewhere(const std::vector<std::string>& arguments) const;
  finished_program run_elsewhere(const std::vector<std::string>& arguments) const;
  finished_program run_here(std::vector<std::string> arguments) const;
  std::map<std::string, std::string> variables() const { return {{"CUDAL1_DATA", home()}}; }

  temporary_folder folder_;
  uint16_t port_ = 0;
  std::string identity_;  // of the user
  pid_t coordinator_ = -1;
  std::map<std::string, pid_t> machines_;

 private:
  static pid_t start_node(std::vector<std::string> arguments, const std::vector<std::string>& settings,
                          const std::map<std::string, std::string>& variables);
};

}  // namespace cudal1::cli
