// A rolling upgrade: the machines of a cluster, then its coordinator, are replaced by another version of the program
// with the same protocol, one after the other, while a search runs.
#include <csignal>

#include <gmock/gmock.h>

#include "tests/actors/cluster_fixture.hpp"

namespace cudal1 {
namespace {

class cluster_upgrade_test : public cluster_test {
 protected:
  std::string version_of(const std::string& machine) {
    for (const auto& m : hello().machines)
      if (m.name == machine) return m.version;
    return "";
  }
  void upgrade(const std::string& machine) {
    signal_machine(machine, SIGTERM);
    ASSERT_EQ(wait_machine(machine), 0) << log_of(machine);
    start_machine(machine);
    ASSERT_TRUE(wait_for_device(machine + "/cpu"));
    EXPECT_EQ(version_of(machine), CUDAL1_NEXT_VERSION);
  }
  // Sends a request, and reads the progress of its experiment until it has some evaluations more than first seen.
  experiment_progress watch(node_client& client, const client_request& request, int64_t more) {
    EXPECT_TRUE(client.send(request));
    int64_t first = -1;
    const auto seen = read_to_end(client, [&](const client_answer& a) {
      if (a.progress && first < 0) first = a.progress->evaluations;
      return !a.progress || a.progress->evaluations < first + more;
    });
    EXPECT_FALSE(seen.last) << seen.error;
    return seen.progress.value_or(experiment_progress{});
  }
};

TEST_F(cluster_upgrade_test, replaces_machines_and_the_coordinator_while_a_search_runs) {
  start_coordinator();
  start_machine("b");
  start_machine("c");
  ASSERT_TRUE(wait_for_device("b/cpu") && wait_for_device("c/cpu"));
  ASSERT_NE(version_of("b"), CUDAL1_NEXT_VERSION);
  std::string experiment;
  {
    auto client = connect();
    auto request = run_request(two_tasks(), 10'000);  // it does not end by itself
    request.device = "cpu";
    experiment = watch(client, request, 3).experiment;
  }
  program_ = CUDAL1_NEXT_NODE;
  upgrade("b");
  EXPECT_NE(version_of("c"), CUDAL1_NEXT_VERSION) << "both versions work at the same time";
  upgrade("c");
  kill_node(SIGTERM);
  EXPECT_EQ(wait_node(), 0);
  start_coordinator();
  ASSERT_TRUE(wait_for_device("b/cpu") && wait_for_device("c/cpu"));
  EXPECT_EQ(version_of(""), CUDAL1_NEXT_VERSION);

  client_request follow;
  follow.verb = client_verb::follow;
  follow.experiment = experiment;
  auto client = connect();
  watch(client, follow, 3);
  client_request stop;
  stop.verb = client_verb::stop;
  stop.experiment = experiment;
  ASSERT_TRUE(client.send(stop));
  const auto end = read_to_end(client);
  ASSERT_TRUE(end.progress) << end.error;
  EXPECT_EQ(end.progress->state, "cancelled");
  EXPECT_EQ(end.progress->infrastructure_faults, 0) << "nothing is lost by an upgrade";
  check_attempts(experiment, end.progress->evaluations);
}

}  // namespace
}  // namespace cudal1
