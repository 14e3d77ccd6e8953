// A node of which one thread does not run any more, as in a call that never returns, or of which an actor dies.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/actors/node_fixture.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

class node_that_hangs : public node_test {
 protected:
  void TearDown() override {
    release();
    node_test::TearDown();
  }

  // The thread of an actor of that name; 0 if there is none.
  pid_t thread_of(const std::string& actor) const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task")) {
      std::string name;
      std::ifstream comm(entry.path() / "comm");
      if (std::getline(comm, name) && name == actor) return std::stoi(entry.path().filename());
    }
    return 0;
  }
  void hang(const std::string& actor) {
    thread_ = thread_of(actor);
    ASSERT_GT(thread_, 0) << "there is no thread " << actor;
    if (::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) != 0) {
      thread_ = 0;
      GTEST_SKIP() << "no process may be traced here";
    }
    // Elsewhere than in a call it may hold a lock, for which the whole node would wait.
    for (int tries = 0; tries < 5000; ++tries) {
      ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr), 0);
      ASSERT_EQ(::waitpid(thread_, nullptr, __WALL), thread_);
      if (is_in_call()) return;
      ASSERT_EQ(::ptrace(PTRACE_CONT, thread_, nullptr, nullptr), 0);
      std::this_thread::sleep_for(1ms);
    }
    FAIL() << actor << " is never in a call of the system";
  }
  // Whether the stopped thread is in a call of the system, which is where it waits.
  bool is_in_call() const {
    std::string number;
    std::ifstream(fmt::format("/proc/{}/task/{}/syscall", pid_, thread_)) >> number;
    return !number.empty() && number != "-1" && number != "running";
  }
  void release() {
    if (thread_ > 0) ::ptrace(PTRACE_DETACH, std::exchange(thread_, 0), nullptr, nullptr);
  }
  // Waits for the end of the node, which ends the stopped thread too.
  int wait_hung_node() {
    ::waitpid(std::exchange(thread_, 0), nullptr, __WALL);
    return wait_node();
  }
  // Starts an experiment and waits for its first verdict.
  void run(node_client& client, const client_request& r) {
    ASSERT_TRUE(client.send(r));
    const auto first = read_to_end(client, [](const client_answer& a) { return a.progress->evaluations < 1; });
    ASSERT_FALSE(first.last) << first.error;
  }

  pid_t thread_ = 0;
};

class node_whose_actor_hangs : public node_that_hangs, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(each, node_whose_actor_hangs, testing::Values("device", "generator", "learner"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(node_whose_actor_hangs, ends_an_experiment_at_its_deadline_and_goes_on_with_the_next) {
  start_node({"--set", "search.end_timeout_s=1"});
  auto client = connect();
  auto r = run_request({relu_chain_task(), diagonal_task()}, 0);
  r.time_limit_s = 5;
  run(client, r);
  hang(GetParam());
  const auto hung = std::chrono::steady_clock::now();
  const auto last = read_to_end(client);
  ASSERT_TRUE(last.progress) << last.error;
  EXPECT_EQ(last.error, "");
  EXPECT_EQ(last.progress->state, "finished");
  EXPECT_LT(std::chrono::steady_clock::now() - hung, 30s);
  EXPECT_LE(last.progress->infrastructure_faults, 1) << "what no device had pulled was not withdrawn";

  release();
  auto again = connect();
  ASSERT_TRUE(again.send(run_request({diagonal_task()}, 2)));
  const auto next = read_to_end(again);
  ASSERT_TRUE(next.progress) << next.error;
  EXPECT_EQ(next.progress->evaluations, 2);
}

TEST_F(node_that_hangs, obeys_sigterm) {
  start_node({"--set", "search.end_timeout_s=1"});
  auto client = connect();
  run(client, run_request({relu_chain_task(), diagonal_task()}, 1000));
  hang("device");
  const auto asked = std::chrono::steady_clock::now();
  kill_node(SIGTERM);
  EXPECT_EQ(wait_hung_node(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - asked, 60s);
}

TEST_F(node_that_hangs, gives_up_a_device_that_does_not_answer) {
  start_node({"--set", "device.time_limit_s=5"});
  auto client = connect();
  run(client, run_request({relu_chain_task(), diagonal_task()}, 1000));
  hang("device");
  const auto last = read_to_end(client);
  ASSERT_TRUE(last.progress) << last.error;
  EXPECT_THAT(last.error, HasSubstr("device cpu cannot be used: it does not answer"));
  EXPECT_EQ(last.progress->state, "running") << "the next node resumes it";
  release();
  auto next = run_request({diagonal_task()}, 1);
  next.device = "cpu";
  EXPECT_THAT(ask_once(next).error, HasSubstr("device cpu cannot be used: it does not answer"));
  EXPECT_TRUE(read_store()->unfinished_attempts(last.progress->experiment));
  kill_node(SIGTERM);
  EXPECT_EQ(wait_node(), 0);
}

class node_whose_policy_dies : public node_that_hangs {
 protected:
  node_whose_policy_dies() { ::setenv("LD_PRELOAD", CUDAL1_THROWING_ALLOCATION, 1); }
  ~node_whose_policy_dies() override { ::unsetenv("LD_PRELOAD"); }

  // Makes an actor throw (throwing_allocation.cpp), and waits until the node knows that it died.
  void kill_actor(const std::string& actor) {
    const auto deaths = [&] {
      const std::string all = log();
      std::size_t count = 0;
      for (auto at = all.find("an actor of the policy"); at != std::string::npos; at = all.find("an actor of", at + 1))
        ++count;
      return count;
    };
    const auto before = deaths();
    ASSERT_TRUE(wait_until([&] { return thread_of(actor) != 0; })) << "there is no thread " << actor;
    ASSERT_EQ(::syscall(SYS_tgkill, pid_, thread_of(actor), SIGUSR2), 0);
    ASSERT_TRUE(wait_until([&] { return deaths() > before; })) << "it did not die";
  }
};

TEST_F(node_whose_policy_dies, starts_it_again_twice) {
  start_node();
  auto client = connect();
  auto request = run_request({relu_chain_task(), diagonal_task()}, 1000);
  request.policy = "learned";  // with groups, which its learner is told of
  run(client, request);
  for (const char* actor : {"generator", "learner"}) {
    kill_actor(actor);
    int64_t before = -1;
    const auto on = read_to_end(client, [&](const client_answer& a) {
      if (before < 0) before = a.progress->evaluations;
      return a.progress->evaluations < before + 4;  // more than were in preparation
    });
    ASSERT_FALSE(on.last) << "after the death of the " << actor << ": " << on.error;
  }
  kill_actor("generator");
  const auto last = read_to_end(client);
  ASSERT_TRUE(last.progress) << last.error;
  EXPECT_THAT(last.error, HasSubstr("died repeatedly"));
  EXPECT_EQ(last.progress->state, "running") << "the next node resumes it";
}

}  // namespace
}  // namespace cudal1
