// Several nodes: they join, work, are killed, stopped and cut off, come back, and leave.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "sandbox/program/safetensors.hpp"
#include "store/blobs.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

TEST_F(cluster_test, a_machine_that_joins_evaluates_for_the_coordinator) {
  start_coordinator();
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  EXPECT_EQ(state_of("b"), "present");
  const auto end = run_on("b/cpu", two_tasks(), 4);
  check_stored(end, 8);
  EXPECT_EQ(end.progress->infrastructure_faults, 0);
  signal_machine("b", SIGTERM);
  EXPECT_EQ(wait_machine("b"), 0);
  EXPECT_EQ(state_of("b"), "left");
}

TEST_F(cluster_test, a_kind_names_the_devices_of_all_machines_also_of_those_that_join_later) {
  start_coordinator();
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  bool started = false;
  const auto end = run_on("cpu", two_tasks(), 15, [&](const experiment_progress& p) {
    if (!started && p.evaluations > 2) start_machine("c");
    started = started || p.evaluations > 2;
  });
  check_stored(end, 30);
  EXPECT_THAT(log_of("c"), HasSubstr("joined as c"));
  // Both have the task's inputs: a device only opens a task that it measures.
  EXPECT_TRUE(wait_for_device("c/cpu"));
}

TEST_F(cluster_test, a_machine_that_is_told_to_end_hands_back_what_it_has_not_begun) {
  start_coordinator();
  start_machine("b");
  start_machine("c");
  ASSERT_TRUE(wait_for_device("b/cpu") && wait_for_device("c/cpu"));
  bool told = false;
  const auto end = run_on("cpu", two_tasks(), 10, [&](const experiment_progress& p) {
    if (!told && p.evaluations > 3) signal_machine("b", SIGTERM);
    told = told || p.evaluations > 3;
  });
  check_stored(end, 20);
  EXPECT_EQ(end.progress->infrastructure_faults, 0) << "nothing is lost when a machine leaves";
  EXPECT_EQ(wait_machine("b"), 0);
}

TEST_F(cluster_test, after_kill_9_of_a_machine_another_one_goes_on_and_it_comes_back) {
  start_coordinator();
  start_machine("b");
  start_machine("c");
  ASSERT_TRUE(wait_for_device("b/cpu") && wait_for_device("c/cpu"));
  bool killed = false;
  const auto end = run_on("cpu", two_tasks(), 15, [&](const experiment_progress& p) {
    if (killed || p.evaluations < 4) return;
    killed = true;
    signal_machine("b", SIGKILL);
    wait_machine("b");
    EXPECT_TRUE(wait_for_state("b", "away", 2s)) << "a broken connection is noticed at once";
    start_machine("b");
  });
  check_stored(end, 30);
  EXPECT_LE(end.progress->infrastructure_faults, 2);
  EXPECT_TRUE(wait_for_device("b/cpu"));
}

TEST_F(cluster_test, a_machine_that_stops_is_away_within_the_configured_time_and_keeps_its_results) {
  start_coordinator();
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  bool stopped = false;
  const auto end = run_on("b/cpu", two_tasks(), 8, [&](const experiment_progress& p) {
    if (stopped || p.evaluations < 3) return;
    stopped = true;
    const auto from = std::chrono::steady_clock::now();
    signal_machine("b", SIGSTOP);
    EXPECT_TRUE(wait_for_state("b", "away", 10s));
    const auto took = std::chrono::steady_clock::now() - from;
    EXPECT_GE(took, 1s);
    EXPECT_LE(took, 5s) << "1.5 s are configured, and the coordinator looks each second";
    signal_machine("b", SIGCONT);
    EXPECT_TRUE(wait_for_state("b", "present", 20s));
  });
  check_stored(end, 16);
  EXPECT_LE(end.progress->infrastructure_faults, 1);
}

TEST_F(cluster_test, after_kill_9_of_the_coordinator_machines_join_the_next_one_and_the_experiment_ends) {
  start_coordinator();
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  std::string experiment;
  {
    auto client = connect();
    auto request = run_request(two_tasks(), 10);
    request.device = "b/cpu";
    ASSERT_TRUE(client.send(request));
    const auto seen = read_to_end(client, [](const client_answer& a) { return a.progress->evaluations < 5; });
    ASSERT_FALSE(seen.last) << seen.error;
    experiment = seen.progress->experiment;
    kill_node(SIGKILL);
  }
  EXPECT_EQ(wait_node(), -SIGKILL);
  start_coordinator();
  ASSERT_TRUE(wait_for_device("b/cpu"));
  // It is resumed once its device is there.
  check_stored(follow_to_end(experiment, 60s), 20);
}

TEST_F(cluster_test, weights_are_copied_to_the_machine_that_evaluates) {
  start_coordinator();
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  // More bytes than a message carries.
  const int64_t rows = 1500, columns = 1000;
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 1013) / 1013;
  const stored_tensors tensors = {{"w", {dtype::float32, {rows, columns}, std::as_bytes(std::span(values))}}};
  ASSERT_TRUE(write_safetensors(folder_ + "/w", tensors));
  std::ifstream in(folder_ + "/w", std::ios::binary);
  std::filesystem::create_directories(folder_ + "/blobs");
  const auto name = blobs(folder_).put(std::string(std::istreambuf_iterator<char>(in), {}), ".safetensors");
  ASSERT_TRUE(name) << name.error().message;
  const auto t = read_task(fmt::format(R"({{"format": 1, "name": "with_weights", "summary": "s", "family": "pointwise",
    "inputs": [{{"name": "x", "dtype": "float32", "shape": [{0}, {1}]}}],
    "weights": [{{"name": "w", "dtype": "float32", "shape": [{0}, {1}],
                  "draw": {{"distribution": "normal", "mean": 0, "std": 0.5}},
                  "content": {{"file": "{2}", "tensor": "w"}}}}],
    "steps": [{{"aten": "aten::add.Tensor", "args": {{"self": "x", "other": "w"}}, "out": ["s"]}},
              {{"aten": "aten::relu", "args": {{"self": "s"}}, "out": ["y"]}}], "outputs": ["y"]}})",
                                       rows, columns, *name),
                           "cpu");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_FALSE(blobs(folder_of("b")).has(*name));
  const auto end = run_on("b/cpu", {*t}, 2);
  check_stored(end, 2);
  EXPECT_TRUE(blobs(folder_of("b")).has(*name));
}

TEST_F(cluster_test, a_machine_that_is_drained_gets_no_more_work) {
  start_coordinator();
  start_machine("b");
  start_machine("c");
  ASSERT_TRUE(wait_for_device("b/cpu") && wait_for_device("c/cpu"));
  client_request drain;
  drain.verb = client_verb::drain_machine;
  drain.machine = "nobody";
  EXPECT_THAT(ask_once(drain).error, HasSubstr("no machine \"nobody\""));
  drain.machine = "b";
  EXPECT_EQ(ask_once(drain).error, "");
  check_stored(run_on("cpu", {relu_chain_task()}, 4), 4);
  // With the other one gone, nothing goes on until it gets work again.
  signal_machine("c", SIGTERM);
  EXPECT_EQ(wait_machine("c"), 0);
  bool undone = false;
  int64_t waited = 0;
  const auto end = run_on("b/cpu", {diagonal_task()}, 2, [&](const experiment_progress& p) {
    if (undone || ++waited < 5) return;
    EXPECT_EQ(p.evaluations, 0);
    undone = true;
    drain.draining = false;
    EXPECT_EQ(ask_once(drain).error, "");
  });
  check_stored(end, 2);
}

TEST_F(cluster_test, a_revoked_certificate_is_disconnected_and_stays_out) {
  start_coordinator();
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  const auto authority = certificate_authority::open(folder_ + "/cluster");
  ASSERT_TRUE(authority);
  ASSERT_TRUE(authority->revoke("b"));
  EXPECT_TRUE(wait_for_state("b", "away", 10s));
  std::this_thread::sleep_for(3s);
  EXPECT_NE(state_of("b"), "present");
}

TEST_F(cluster_test, two_machines_of_one_name_are_not_mixed_up) {
  start_coordinator();
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  const int first = machines_.at("b");
  start_machine("b", folder_ + "/other");
  EXPECT_TRUE(wait_until([&] { return log_of("b").find("is in this cluster and alive") != std::string::npos; }));
  EXPECT_EQ(state_of("b"), "present");
  signal_machine("b", SIGKILL);
  wait_machine("b");
  machines_["b"] = first;
  check_stored(run_on("b/cpu", {relu_chain_task()}, 2), 2);
}

}  // namespace
}  // namespace cudal1
