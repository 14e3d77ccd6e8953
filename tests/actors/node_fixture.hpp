// A cudal1-node process for a test, in a temporary folder.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "actors/clients/client.hpp"
#include "store/store.hpp"
#include "tests/actors/small_tasks.hpp"

namespace cudal1 {

using namespace std::chrono_literals;

// Waits for a condition that depends on another process.
bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds at_most = 30s);
// Gone, or dead and not yet reaped.
bool is_dead(int pid);
// Starts a program, whose output goes to the end of a file; its process id. Throws if that fails.
int spawn_program(std::vector<std::string> words, const std::string& output);
// Waits for its end: its exit code, or minus the signal.
int wait_program(int pid);
// Settings with which evaluations are quick, as arguments of a node. Small containers do not allow full confinement,
// which has tests of its own.
std::vector<std::string> quick_settings();

class node_test : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Starts a node with quick settings and waits until it answers. `more` are further arguments.
  void start_node(const std::vector<std::string>& more = {});
  // Starts the program and returns at once.
  void spawn(const std::vector<std::string>& arguments);
  void kill_node(int signal);
  // Waits for its end: its exit code, or minus the signal.
  int wait_node();
  // From now on nodes are started on a disk of that size, which they alone see, mounted on their data folder. False if
  // this system does not let us mount one.
  bool use_small_disk(int megabytes);
  // The data folder as this process sees it.
  std::string data() const;

  node_client connect();
  node_status hello();
  client_request run_request(const std::vector<task>& tasks, int64_t evaluations) const;
  // Follows a stream of answers to its end; `each` gets every answer and may return false to stop early.
  client_answer read_to_end(node_client& client, const std::function<bool(const client_answer&)>& each = {},
                            std::chrono::seconds at_most = 100s);
  client_answer ask_once(const client_request& r, std::chrono::milliseconds limit = 60s);

  std::unique_ptr<store> read_store() const;
  std::string log() const;
  std::set<std::string> variants_with_state(const std::vector<attempt_record>& all, attempt_state state) const;

  std::string folder_;
  std::string program_;  // cudal1-node, of which nodes are started
  int pid_ = -1;
  std::vector<std::string> wrapper_;  // the program and arguments that start the node's program
  bool small_disk_ = false;
};

}  // namespace cudal1
