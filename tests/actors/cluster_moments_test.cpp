// Random moments of searches at which processes of a cluster are killed, stopped or ended, and links fail.
// CUDAL1_TEST_MOMENTS: how many; CUDAL1_TEST_SEED: which.
#include <csignal>
#include <cstdlib>
#include <future>
#include <iostream>
#include <random>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace cudal1 {
namespace {

constexpr int64_t evaluations_per_task = 12;
constexpr std::chrono::seconds longest_search{300};  // 10 s are usual

BOOST_DEFINE_ENUM_CLASS(process_fault, machine_killed, machine_stopped, machine_told_to_end, coordinator_stopped,
                        coordinator_killed, none)

struct moment {
  int number = 0;
  int64_t at_evaluation = 0;
  int delay_ms = 0;  // after that
  std::string machine;
  process_fault process{};
  int stopped_ms = 0;
  std::string host;  // "": no link fails
  link_fault link{};
  int kbit_s = 0, link_ms = 0;
  int between_ms = 0;  // from the link's fault to the process's

  std::string text() const {
    auto t = fmt::format("moment {} at {} evaluations", number, at_evaluation);
    if (!host.empty()) t += fmt::format(", link of {} {} for {} ms", host, enum_name(link), link_ms);
    if (process != process_fault::none) t += fmt::format(", {} ({})", enum_name(process), machine);
    return t;
  }
};

class moments {
 public:
  moments(int default_count, bool with_links) : with_links_(with_links) {
    const char* wanted = std::getenv("CUDAL1_TEST_MOMENTS");
    const char* seed = std::getenv("CUDAL1_TEST_SEED");
    count = wanted != nullptr ? std::atoi(wanted) : default_count;
    random_.seed(seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 7);
  }

  moment next() {
    moment m;
    m.number = ++number_;
    m.at_evaluation = pick(2 * evaluations_per_task - 4);
    m.delay_ms = pick(700);
    m.machine = pick(2) == 0 ? "b" : "c";
    m.process = static_cast<process_fault>(pick(5));
    m.stopped_ms = pick(m.process == process_fault::machine_stopped ? 7000 : 4000);
    if (!with_links_) return m;
    if (pick(3) == 0) m.process = process_fault::none;
    m.host = std::vector<std::string>{"b", "c", "coordinator"}[static_cast<std::size_t>(pick(3))];
    // Half of them are cut.
    m.link = static_cast<link_fault>(std::max(0, pick(8) - 3));
    m.kbit_s = 64 << pick(3);
    m.link_ms = 300 + pick(7700);
    m.between_ms = pick(m.link_ms);
    return m;
  }

  int count = 0;

 private:
  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  bool with_links_;
  int number_ = 0;
  std::mt19937 random_;
};

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

class cluster_moments_test : public cluster_test {
 protected:
  // Begins a search at a moment's experiment; its name.
  std::string search_until(const moment& m);
  void disturb(const moment& m);
  void disturb_process(const moment& m);
  // An experiment that ended before its coordinator was killed is not known to the next one.
  bool has_ended(const std::string& experiment);
  void check_all_present();
  void pass(moments all);
};

std::string cluster_moments_test::search_until(const moment& m) {
  auto client = connect();
  auto request = run_request(two_tasks(), evaluations_per_task);
  request.device = "cpu";
  request.seed = static_cast<uint64_t>(m.number) + 99;
  EXPECT_TRUE(client.send(request));
  const auto seen = read_to_end(
      client, [&](const client_answer& a) { return a.progress->evaluations < m.at_evaluation; }, longest_search);
  EXPECT_TRUE(seen.progress) << seen.error;
  sleep_ms(m.delay_ms);
  return seen.progress ? seen.progress->experiment : "";
}

void cluster_moments_test::disturb(const moment& m) {
  if (m.host.empty()) return disturb_process(m);
  network_->begin(m.host, m.link, m.kbit_s);
  const auto mended = std::async(std::launch::async, [&] {
    sleep_ms(m.link_ms);
    network_->end(m.host, m.link);
  });
  sleep_ms(m.between_ms);
  disturb_process(m);
}

void cluster_moments_test::disturb_process(const moment& m) {
  switch (m.process) {
    case process_fault::none:
      return;
    case process_fault::machine_killed:
      signal_machine(m.machine, SIGKILL);
      wait_machine(m.machine);
      return start_machine(m.machine);
    case process_fault::machine_stopped:
      signal_machine(m.machine, SIGSTOP);
      sleep_ms(m.stopped_ms);
      return signal_machine(m.machine, SIGCONT);
    case process_fault::machine_told_to_end:
      signal_machine(m.machine, SIGTERM);
      EXPECT_EQ(wait_machine(m.machine), 0);
      return start_machine(m.machine);
    case process_fault::coordinator_stopped:
      kill_node(SIGSTOP);
      sleep_ms(m.stopped_ms);
      return kill_node(SIGCONT);
    case process_fault::coordinator_killed:
      kill_node(SIGKILL);
      EXPECT_EQ(wait_node(), -SIGKILL);
      return start_coordinator();
  }
}

bool cluster_moments_test::has_ended(const std::string& experiment) {
  const auto stored = read_store()->get_experiment(experiment);
  EXPECT_TRUE(stored);
  return stored && stored->state == experiment_state::finished;
}

void cluster_moments_test::check_all_present() {
  for (const auto& [name, pid] : machines_) {
    EXPECT_FALSE(is_dead(pid)) << name;
    EXPECT_TRUE(wait_for_state(name, "present")) << name;
    EXPECT_TRUE(wait_for_device(name + "/cpu"));
  }
}

void cluster_moments_test::pass(moments all) {
  start_coordinator();
  start_machine("b");
  start_machine("c");
  check_all_present();
  for (int done = 0; done < all.count && !HasFailure(); ++done) {
    const moment m = all.next();
    SCOPED_TRACE(m.text());
    const auto from = std::chrono::steady_clock::now();
    const auto experiment = search_until(m);
    disturb(m);
    client_answer end;
    if (m.process == process_fault::coordinator_killed && has_ended(experiment)) {
      check_attempts(experiment, 2 * evaluations_per_task);
    } else {
      end = follow_to_end(experiment, longest_search);
      check_stored(end, 2 * evaluations_per_task);
    }
    check_all_present();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
    std::cout << fmt::format(
                     "{}: {:.1f} s{}", m.text(), took.count(),
                     end.progress ? fmt::format(", {} faults of machines", end.progress->infrastructure_faults) : "")
              << std::endl;
  }
}

TEST_F(cluster_moments_test, at_random_moments_nothing_is_lost_or_blamed_on_a_variant) {
  pass({4, false});
}

TEST_F(cluster_moments_test, at_random_moments_of_a_failing_network_nothing_is_lost_or_blamed_on_a_variant) {
  if (const auto used = use_network({"b", "c"}); !used) GTEST_SKIP() << "this test needs " << used.error().message;
  pass({3, true});
}

}  // namespace
}  // namespace cudal1
