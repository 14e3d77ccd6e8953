// A coordinator and the machines that join it, each a cudal1-node process in a folder of its own, over TLS on loopback
// or on a network of the test.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/transport/certificate_authority.hpp"
#include "actors/transport/certificates.hpp"
#include "tests/actors/node_fixture.hpp"
#include "tests/actors/test_network.hpp"

namespace cudal1 {

// With many variants each.
std::vector<task> two_tasks();

// The coordinator is the fixture's node, in folder_.
class cluster_test : public node_test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // From now on the coordinator and machines of these names run on hosts of their own. An error where this system does
  // not let us have a network.
  expected<void> use_network(const std::vector<std::string>& machines);
  std::string address() const;  // of the coordinator

  // Starts it without devices, unless there are others in `more`, and waits until it answers.
  void start_coordinator(const std::vector<std::string>& more = {"--device", "none"});
  // Starts a machine with a cpu, whose certificate it makes if there is none yet. `data`: its folder, if not
  // folder_of(). `devices`: its flags.
  void start_machine(const std::string& name, const std::string& data = "",
                     const std::vector<std::string>& devices = {"--device", "cpu"});
  // Sends its process a signal.
  void signal_machine(const std::string& name, int signal);
  int wait_machine(const std::string& name);
  std::string folder_of(const std::string& name) const { return folder_ + "/" + name; }
  std::string log_of(const std::string& name) const;

  // "present", "away", ...; "" if the coordinator does not know it.
  std::string state_of(const std::string& name);
  bool wait_for_state(const std::string& name, const std::string& state, std::chrono::milliseconds at_most = 30s);
  bool wait_for_device(const std::string& device);
  // Runs an experiment; `now` gets every progress.
  client_answer run_on(const std::string& devices, const std::vector<task>& tasks, int64_t evaluations,
                       const std::function<void(const experiment_progress&)>& now = {});
  // Follows an experiment that runs or is resumed, until it is finished; fails if it is not by then.
  client_answer follow_to_end(const std::string& experiment, std::chrono::seconds at_most);
  // Checks that each evaluation of an experiment is stored once, and that no variant is blamed for what befell a
  // machine.
  void check_stored(const client_answer& end, int64_t evaluations);
  void check_attempts(const std::string& experiment, int64_t evaluations);

  uint16_t port_ = 0;
  std::unique_ptr<test_network> network_;  // of which the coordinator is the host "coordinator"
  std::map<std::string, int> machines_;    // process ids
};

}  // namespace cudal1
