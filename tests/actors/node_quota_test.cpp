// The quota of a data folder, and the pruning of old records by the node.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/actors/node_fixture.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

class node_quota : public node_test {
 protected:
  void make_file(const std::string& name, uintmax_t megabytes) const {
    const std::filesystem::path path = folder_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "x";
    std::filesystem::resize_file(path, megabytes << 20);  // sparse
  }
  bool has_file(const std::string& name) const { return std::filesystem::exists(folder_ + "/" + name); }
};

TEST_F(node_quota, deletes_what_can_be_made_again_then_pauses_until_there_is_room) {
  start_node({"--set", "operation.disk_quota_gb=0.2"});
  make_file("cache/old", 300);
  make_file("node.3.log", 100);
  EXPECT_TRUE(wait_until([&] { return !has_file("cache/old"); })) << "compiled code can be made again";
  EXPECT_THAT(hello().devices, testing::SizeIs(1));

  auto client = connect();
  ASSERT_TRUE(client.send(run_request({relu_chain_task(), diagonal_task()}, 1000)));
  const auto early = read_to_end(client, [](const client_answer& a) { return a.progress->evaluations < 2; });
  ASSERT_FALSE(early.last) << early.error;
  make_file("blobs/ballast", 300);
  const auto full = read_to_end(client, [](const client_answer& a) { return a.progress->problem.empty(); });
  ASSERT_FALSE(full.last) << full.error;
  EXPECT_THAT(full.progress->problem,
              testing::AllOf(HasSubstr("operation.disk_quota_gb"), HasSubstr("cudal1 store prune")));
  EXPECT_TRUE(has_file("blobs/ballast")) << "only what can be made again is deleted";
  EXPECT_THAT(ask_once(run_request({diagonal_task()}, 1)).error, HasSubstr("operation.disk_quota_gb"));
  std::filesystem::remove(folder_ + "/blobs/ballast");
  const auto again = read_to_end(client, [&](const client_answer& a) {
    return !a.progress->problem.empty() || a.progress->evaluations < full.progress->evaluations + 5;
  });
  ASSERT_FALSE(again.last) << again.error;
  EXPECT_EQ(again.progress->infrastructure_faults, 0);
}

TEST_F(node_quota, old_records_are_pruned_when_the_node_starts) {
  start_node();
  auto client = connect();
  ASSERT_TRUE(client.send(run_request({relu_chain_task()}, 30)));
  const auto end = read_to_end(client);
  ASSERT_TRUE(end.progress) << end.error;
  kill_node(SIGTERM);
  ASSERT_EQ(wait_node(), 0);
  {
    auto s = store::open(folder_ + "/store").value();
    auto e = s->get_experiment("e1").value();
    e.finished_unix_ms = e.created_unix_ms = 1'700'000'000'000;
    ASSERT_TRUE(s->update_experiment(e));
  }
  start_node({"--set", "operation.keep_days=30"});
  EXPECT_TRUE(wait_until([&] { return read_store()->get_experiment("e1")->pruned_unix_ms > 0; }));
  client_request resume;
  resume.verb = client_verb::run;
  resume.experiment = "e1";
  EXPECT_THAT(ask_once(resume).error, HasSubstr("were pruned"));
  const auto check = read_store()->verify();
  ASSERT_TRUE(check) << check.error().message;
  EXPECT_EQ(check->problem_count, 0);
}

}  // namespace
}  // namespace cudal1
