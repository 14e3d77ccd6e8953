// Links that are cut or slow between a coordinator and its machines, each on a host of its own. CUDAL1_TEST_CUT_S: for
// how long they are cut after that was noticed.
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace cudal1 {
namespace {

using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point from) {
  return std::chrono::duration<double>(steady_clock::now() - from).count();
}

std::chrono::seconds cut_time() {
  const char* wanted = std::getenv("CUDAL1_TEST_CUT_S");
  return std::chrono::seconds(wanted != nullptr ? std::atoi(wanted) : 2);
}

class cluster_network_test : public cluster_test {
 protected:
  void SetUp() override {
    cluster_test::SetUp();
    if (const auto used = use_network({"b"}); !used) GTEST_SKIP() << "this test needs " << used.error().message;
  }
  void cut_in_a_search(const std::string& host, link_fault how);
};

// The machine has time enough to come back with what it has.
void cluster_network_test::cut_in_a_search(const std::string& host, link_fault how) {
  SCOPED_TRACE(fmt::format("{} of {}", enum_name(how), host));
  bool cut = false;
  const auto end = run_on("b/cpu", two_tasks(), 5, [&](const experiment_progress& p) {
    if (cut || p.evaluations < 2) return;
    cut = true;
    auto from = steady_clock::now();
    network_->begin(host, how);
    EXPECT_TRUE(wait_for_state("b", "away", 10s));
    const double noticed_s = seconds_since(from);
    EXPECT_GE(noticed_s, 1);
    EXPECT_LE(noticed_s, 3.5) << "1.5 s are configured, and the coordinator looks each second";
    std::this_thread::sleep_for(cut_time());  // in which the device finishes what it has
    network_->end(host, how);
    from = steady_clock::now();
    EXPECT_TRUE(wait_for_state("b", "present", 30s)) << "the machine tries every 15 s at the latest";
    std::cout << fmt::format("{} of {}: noticed after {:.1f} s, joined {:.1f} s after its end\n", enum_name(how), host,
                             noticed_s, seconds_since(from));
  });
  check_stored(end, 10);
  EXPECT_EQ(end.progress->infrastructure_faults, 0) << "its results were kept";
  const auto attempts = read_store()->attempts(end.progress->experiment);
  ASSERT_TRUE(attempts);
  EXPECT_TRUE(std::ranges::all_of(*attempts, [](const auto& a) { return a.number == 1; })) << "none was repeated";
}

TEST_F(cluster_network_test, a_link_that_fails_is_noticed_in_time_and_the_results_come_once_it_works_again) {
  start_coordinator({"--device", "none", "--set", "cluster.rejoin_s=60"});
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  cut_in_a_search("b", link_fault::cut);
  cut_in_a_search("b", link_fault::mute);
  cut_in_a_search("coordinator", link_fault::unplugged);
  cut_in_a_search("coordinator", link_fault::deaf);
}

TEST_F(cluster_network_test, over_a_slow_link_a_search_ends_without_a_fault) {
  start_coordinator();
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  network_->begin("b", link_fault::slow, 256);
  const auto from = steady_clock::now();
  const auto end = run_on("b/cpu", two_tasks(), 6);
  check_stored(end, 12);
  std::cout << fmt::format("12 evaluations at 256 kbit/s: {:.1f} s, {} faults of machines\n", seconds_since(from),
                           end.progress->infrastructure_faults);
  network_->end("b", link_fault::slow);
}

}  // namespace
}  // namespace cudal1
