// SIGKILL for each process in the middle of a call: an infrastructure error, no orphans, and the session continues.
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "native_object.hpp"
#include <sys/wait.h>
#include <unistd.h>

namespace cudal1::testing_device {
namespace {

using namespace std::chrono_literals;

bool is_running(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(status, text)) return false;
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text.at(name_end + 2) != 'Z';
}

// Waits up to ten seconds for `condition`.
bool becomes_true(auto&& condition) {
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

struct process_death : device_test {
  // Calls `harm` while a runner is in an endless kernel, and returns the report of the check.
  expected<check_report> check_while(auto&& harm) {
    check_plan plan = short_plan();
    plan.call_limit_ms = 20'000;
    const compiled_code endless = native("for (;;) asm volatile(\"\");", elements);
    std::thread other([&] {
      if (becomes_true([&] { return !session->runner_pids().empty() && is_busy(session->runner_pids()[0]); })) harm();
    });
    auto report = check(endless, plan);
    other.join();
    return report;
  }
  // Whether it has used more processor time than its start needs, so that it is in the kernel.
  static bool is_busy(int pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    if (!std::getline(status, text)) return false;
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string field;
    for (int i = 0; i < 12; ++i)
      fields >> field;
    return std::stol(field) > 10;  // utime, 10 ms each
  }
  void expect_recovery() {
    const compiled_code right = native(relu_loop, elements);
    const auto start = std::chrono::steady_clock::now();
    const auto report = check(right);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_FALSE(report->problem);
    EXPECT_LT(took.count(), 5);
    std::printf("next check after %.2f s\n", took.count());
  }
};

TEST_F(process_death, of_the_runner_is_infrastructure) {
  const auto report = check_while([&] { ::kill(session->runner_pids().at(0), SIGKILL); });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, errc::infrastructure);
  expect_recovery();
}

TEST_F(process_death, of_the_referee_is_infrastructure_and_its_runner_ends) {
  std::vector<int> runners;
  const int referee = session->referee_pid();
  const auto report = check_while([&] {
    runners = session->runner_pids();
    ::kill(referee, SIGKILL);
  });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, errc::infrastructure);
  EXPECT_NE(session->referee_pid(), referee);
  for (const int pid : runners)
    EXPECT_TRUE(becomes_true([&] { return !is_running(pid); }));
  expect_recovery();
}

TEST_F(process_death, of_the_zygote_ends_its_children_and_it_is_replaced) {
  std::vector<int> pids;
  const int zygote = session->zygote_pid();
  const auto report = check_while([&] {
    pids = session->runner_pids();
    pids.push_back(session->referee_pid());
    ::kill(zygote, SIGKILL);
  });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, errc::infrastructure);
  EXPECT_NE(session->zygote_pid(), zygote);
  for (const int pid : pids)
    EXPECT_TRUE(becomes_true([&] { return !is_running(pid); }));
  expect_recovery();
}

TEST_F(process_death, between_calls_is_noticed_by_the_next_call) {
  ::kill(session->referee_pid(), SIGKILL);
  auto report = check(native(relu_loop, elements));
  if (!report) report = check(native(relu_loop, elements));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->problem);
}

TEST_F(process_death, a_cancelled_call_ends_at_once) {
  const auto start = std::chrono::steady_clock::now();
  const auto report = check_while([&] { session->cancel(); });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, errc::cancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  expect_recovery();
}

TEST_F(process_death, of_the_session_leaves_no_process_behind) {
  auto started = device_session::start(test_options());
  ASSERT_TRUE(started) << started.error().message;
  const std::vector<int> pids{(*started)->zygote_pid(), (*started)->referee_pid()};
  started->reset();
  for (const int pid : pids)
    EXPECT_TRUE(becomes_true([&] { return !is_running(pid); }));
}

TEST_F(process_death, of_the_owner_by_sigkill_leaves_no_process_behind) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    auto started = device_session::start(test_options());
    int pids[2] = {0, 0};
    if (started) pids[0] = (*started)->zygote_pid(), pids[1] = (*started)->referee_pid();
    (void)!::write(ends[1], pids, sizeof pids);
    for (;;)
      ::pause();
  }
  int pids[2] = {0, 0};
  ASSERT_EQ(::read(ends[0], pids, sizeof pids), static_cast<ssize_t>(sizeof pids));
  ASSERT_GT(pids[0], 0);
  EXPECT_TRUE(is_running(pids[0]));
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  for (const int pid : pids)
    EXPECT_TRUE(becomes_true([&] { return !is_running(pid); }));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace cudal1::testing_device
