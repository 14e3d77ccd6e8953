// kill -9 of any process at any time loses only what was in flight, which runs again.
#include <atomic>
#include <csignal>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "tests/actors/node_fixture.hpp"

namespace cudal1 {
namespace {

class node_faults : public node_test {
 protected:
  // Kills one process of a kind as soon as there is one; false if there was none.
  bool kill_one(const std::string& kind) {
    return wait_until([&] {
      const auto pids = hello().processes[kind];
      for (const int pid : pids)
        if (pid > 0 && ::kill(pid, SIGKILL) == 0) return true;
      return false;
    });
  }
};

TEST_F(node_faults, after_kill_9_of_the_node_only_what_was_in_flight_runs_again) {
  start_node();
  client_answer seen;
  std::map<std::string, std::vector<int>> processes;
  {
    auto client = connect();
    ASSERT_TRUE(client.send(run_request({relu_chain_task(), diagonal_task()}, 5)));
    seen = read_to_end(client, [](const client_answer& a) { return a.progress->evaluations < 3; });
    ASSERT_FALSE(seen.last) << seen.error;
    processes = hello().processes;
    kill_node(SIGKILL);
  }
  EXPECT_EQ(wait_node(), -SIGKILL);
  for (const auto& [kind, pids] : processes)
    for (const int pid : pids)
      EXPECT_TRUE(wait_until([&, p = pid] { return is_dead(p); }, 10s)) << kind << " " << pid << " outlived its node";

  start_node();
  client_request follow;
  follow.verb = client_verb::follow;
  follow.experiment = seen.progress->experiment;
  auto client = connect();
  ASSERT_TRUE(client.send(follow));
  const auto end = read_to_end(client);
  ASSERT_TRUE(end.progress) << end.error;
  EXPECT_EQ(end.progress->state, "finished");

  const auto s = read_store();
  const auto attempts = s->attempts(follow.experiment);
  ASSERT_TRUE(attempts);
  const auto lost = variants_with_state(*attempts, attempt_state::lost);
  const auto finished = variants_with_state(*attempts, attempt_state::finished);
  EXPECT_LE(lost.size(), 3U) << "more was lost than can be in flight";
  for (const auto& variant : lost)
    EXPECT_TRUE(finished.contains(variant)) << "a lost attempt was not repeated";
  EXPECT_EQ(attempts->size(), lost.size() + finished.size()) << "a finished attempt was repeated";
  EXPECT_EQ(static_cast<int64_t>(finished.size()), end.progress->evaluations);
  EXPECT_EQ(static_cast<int64_t>(lost.size()), end.progress->infrastructure_faults);
}

TEST_F(node_faults, kill_9_of_zygote_referee_and_runner_is_never_the_variants_fault) {
  start_node();
  auto client = connect();
  ASSERT_TRUE(client.send(run_request({relu_chain_task(), diagonal_task()}, 20)));
  for (const char* kind : {"runner", "referee", "zygote"}) {
    int64_t before = -1;
    // Each in the middle of another evaluation.
    const auto now = read_to_end(client, [&](const client_answer& a) {
      if (before < 0) before = a.progress->evaluations;
      return a.progress->evaluations == before;
    });
    ASSERT_FALSE(now.last) << "the experiment ended before the " << kind << " could be killed";
    EXPECT_TRUE(kill_one(kind)) << kind;
  }
  const auto end = read_to_end(client);
  ASSERT_TRUE(end.progress) << end.error;
  EXPECT_EQ(end.error, "");
  EXPECT_EQ(end.progress->state, "finished");
  EXPECT_GE(end.progress->infrastructure_faults, 1);
  for (const char* blamed : {"crash", "hang", "forbidden", "out_of_memory", "out_of_bounds"})
    EXPECT_FALSE(end.progress->outcomes.contains(blamed)) << blamed;
  const auto attempts = read_store()->attempts(end.progress->experiment);
  ASSERT_TRUE(attempts);
  for (const auto& a : *attempts)
    EXPECT_TRUE(a.state != attempt_state::lost || !a.note.empty());
}

TEST_F(node_faults, a_variant_that_loses_two_attempts_is_quarantined) {
  start_node();
  std::atomic<bool> answered = false;
  client_answer answer;
  std::thread evaluation([&] {
    client_request r;
    r.verb = client_verb::evaluate;
    r.task = canonical_text(relu_chain_task());
    r.program = pointwise_program("x[i] > 0.f ? x[i] * 1.5f : 0.f");
    answer = ask_once(r);
    answered = true;
  });
  // Kills the runner of every attempt.
  const bool ended = wait_until([&] {
    const auto pids = hello().processes["runner"];
    for (const int pid : pids)
      if (pid > 0) ::kill(pid, SIGKILL);
    return answered.load();
  });
  evaluation.join();
  ASSERT_TRUE(ended);
  ASSERT_TRUE(answer.result) << answer.error;
  EXPECT_EQ(enum_name(answer.result->result), "quarantined") << answer.result->reason;
  const auto attempts = read_store()->attempts("e1");
  ASSERT_TRUE(attempts);
  EXPECT_EQ(attempts->size(), 3U) << "two that were lost, and the verdict's";
}

TEST_F(node_faults, kill_9_of_the_node_never_quarantines_what_was_in_flight) {
  constexpr int kills = 6;
  std::string experiment;
  for (int i = 0; i < kills; ++i) {
    start_node();
    auto client = connect();
    client_request r = run_request({relu_chain_task(), diagonal_task()}, 1000);
    if (!experiment.empty()) {
      r.verb = client_verb::follow;
      r.experiment = experiment;
    }
    ASSERT_TRUE(client.send(r));
    int64_t before = -1;
    const auto seen = read_to_end(client, [&](const client_answer& a) {
      if (before < 0) before = a.progress->evaluations;
      return a.progress->evaluations < before + 2;
    });
    ASSERT_FALSE(seen.last) << seen.error;
    experiment = seen.progress->experiment;
    EXPECT_FALSE(seen.progress->outcomes.contains("quarantined")) << "after " << i << " kills";
    kill_node(SIGKILL);
    wait_node();
  }
}

// A node on a disk of its own, which this test fills. The disk is smaller than the log that RocksDB would allocate in
// advance (18 MB): with that the store would go on writing for minutes.
class node_on_a_full_disk : public node_faults {
 protected:
  void SetUp() override {
    node_faults::SetUp();
    if (!use_small_disk(16)) GTEST_SKIP() << "no file system can be mounted here";
  }
  void fill_disk() {
    const int ballast = ::open((data() + "/ballast").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ASSERT_GE(ballast, 0);
    for (std::size_t bytes = std::size_t{1} << 20; bytes > 0;)
      if (::write(ballast, std::string(bytes, 'x').data(), bytes) < 0) bytes /= 2;
    ::close(ballast);
  }
  void free_disk() { ASSERT_EQ(::unlink((data() + "/ballast").c_str()), 0); }
  // Fills the disk with each progress, until `until`: space that the node's last files left is filled again.
  client_answer fill_disk_until(node_client& client, const std::function<bool(const client_answer&)>& until) {
    return read_to_end(client, [&](const client_answer& a) {
      fill_disk();
      return !until(a);
    });
  }
  static bool has_problem(const client_answer& a) { return !a.progress->problem.empty(); }
};

TEST_F(node_on_a_full_disk, says_so_in_progress_and_goes_on_when_there_is_space_again) {
  start_node();
  auto client = connect();
  ASSERT_TRUE(client.send(run_request({relu_chain_task(), diagonal_task()}, 1000)));
  const auto early = read_to_end(client, [](const client_answer& a) { return a.progress->evaluations < 2; });
  ASSERT_FALSE(early.last) << early.error;
  const auto full = fill_disk_until(client, has_problem);
  ASSERT_FALSE(full.last) << full.error;
  EXPECT_NE(full.progress->problem.find("no space left"), std::string::npos) << full.progress->problem;
  free_disk();
  const auto again = read_to_end(client, [&](const client_answer& a) {
    return has_problem(a) || a.progress->evaluations < full.progress->evaluations + 3;
  });
  ASSERT_FALSE(again.last) << again.error;
  EXPECT_FALSE(again.progress->outcomes.contains("quarantined"));
  kill_node(SIGTERM);
  EXPECT_EQ(wait_node(), 0);
}

TEST_F(node_on_a_full_disk, obeys_sigterm) {
  start_node();
  auto client = connect();
  ASSERT_TRUE(client.send(run_request({relu_chain_task(), diagonal_task()}, 1000)));
  ASSERT_FALSE(fill_disk_until(client, has_problem).last);
  const auto asked = std::chrono::steady_clock::now();
  kill_node(SIGTERM);
  EXPECT_EQ(wait_node(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - asked, 60s);
}

TEST_F(node_on_a_full_disk, ends_an_experiment_at_its_deadline) {
  start_node();
  auto client = connect();
  auto r = run_request({relu_chain_task(), diagonal_task()}, 0);
  r.time_limit_s = 5;
  ASSERT_TRUE(client.send(r));
  const auto asked = std::chrono::steady_clock::now();
  bool reported = false;
  const auto last = fill_disk_until(client, [&](const client_answer& a) {
    reported |= has_problem(a);
    return false;
  });
  ASSERT_TRUE(last.last);
  EXPECT_TRUE(reported);
  EXPECT_NE(last.error.find("could not be stored"), std::string::npos) << last.error;
  EXPECT_LT(std::chrono::steady_clock::now() - asked, 60s);
}

}  // namespace
}  // namespace cudal1
