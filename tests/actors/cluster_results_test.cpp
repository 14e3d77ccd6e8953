// What a machine measured while its coordinator could not be told of it.
#include <csignal>
#include <filesystem>

#include "tests/actors/cluster_fixture.hpp"

namespace cudal1 {
namespace {

int files_in(const std::string& folder) {
  std::error_code problem;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
    files += entry.path().extension() == ".json" ? 1 : 0;
  return files;
}

TEST_F(cluster_test, a_machine_that_is_killed_with_results_delivers_them_when_it_is_back) {
  start_coordinator({"--device", "none", "--set", "cluster.rejoin_s=30"});
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  const std::string results = folder_of("b") + "/results";
  bool killed = false;
  const auto end = run_on("b/cpu", {relu_chain_task()}, 16, [&](const experiment_progress& p) {
    if (killed || p.evaluations < 3) return;
    killed = true;
    ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
    // What it has is measured and kept; it gets nothing more.
    EXPECT_TRUE(wait_until([&] { return files_in(results) >= 1; }, 30s));
    std::this_thread::sleep_for(2s);
    signal_machine("b", SIGKILL);
    wait_machine("b");
    EXPECT_GE(files_in(results), 1);
    ASSERT_EQ(::kill(pid_, SIGCONT), 0);
    start_machine("b");
  });
  check_stored(end, 16);
  EXPECT_EQ(end.progress->infrastructure_faults, 0) << "nothing had to be repeated";
  EXPECT_TRUE(wait_until([&] { return files_in(results) == 0; }, 10s)) << "an acknowledged result is not kept";
}

}  // namespace
}  // namespace cudal1
