// What a machine measured while its coordinator could not be told of it.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/describe.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace cudal1 {
namespace {

struct kept_result {
  attempt_record attempt;
};
BOOST_DESCRIBE_STRUCT(kept_result, (), (attempt))

// The attempts of the results that a machine has on disk.
std::vector<attempt_record> results_in(const std::string& folder) {
  std::vector<attempt_record> all;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    if (entry.path().extension() != ".json") continue;  // its write has not ended
    std::ifstream in(entry.path());
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    if (const auto read = from_text<kept_result>(text)) all.push_back(read->attempt);
  }
  return all;
}

TEST_F(cluster_test, a_machine_that_is_killed_with_results_delivers_them_when_it_is_back) {
  start_coordinator({"--device", "none", "--set", "cluster.rejoin_s=30"});
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  const std::string results = folder_of("b") + "/results";
  std::vector<attempt_record> kept;
  const auto end = run_on("b/cpu", {relu_chain_task()}, 24, [&](const experiment_progress& p) {
    if (!kept.empty() || p.evaluations < 3) return;
    ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
    // An evaluation that has yet to ask the coordinator cannot end without it: then the next moment is tried.
    if (wait_until([&] { return !results_in(results).empty(); }, 1s)) {
      signal_machine("b", SIGKILL);
      wait_machine("b");
      kept = results_in(results);
      start_machine("b");
    }
    ASSERT_EQ(::kill(pid_, SIGCONT), 0);
  });
  check_stored(end, 24);
  ASSERT_FALSE(kept.empty()) << "at no moment did it have a result that was not acknowledged";
  const auto attempts = read_store()->attempts(end.progress->experiment);
  ASSERT_TRUE(attempts);
  for (const auto& k : kept)
    EXPECT_TRUE(std::ranges::any_of(*attempts,
                                    [&](const auto& a) {
                                      return a.variant == k.variant && a.number == k.number &&
                                             a.state == attempt_state::finished;
                                    }))
        << k.variant << " was repeated";
  EXPECT_TRUE(wait_until([&] { return results_in(results).empty(); }, 10s)) << "an acknowledged result is not kept";
}

}  // namespace
}  // namespace cudal1
