// Searches over devices of several models, and devices that are reserved for the policy. The devices replay recorded
// verdicts: one source is a search of this machine's cpu, the other one the same as if another model had been measured.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>

#include "config/base/hash.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Copies a store's verdicts as those of another model.
void copy_as_model(const std::string& from, const std::string& to, const std::string& model) {
  const auto source = store::open_reader(from).value();
  const auto copy = store::open(to).value();
  const auto e = copy->create_experiment(source->get_experiment("e1").value()).value();
  const auto tasks = source->tasks().value();
  for (const auto& t : tasks) {
    ASSERT_TRUE(copy->put_task(t));
    const auto verdicts = source->verdicts_of_task(t.id, "e1", store::verdict_parts::all).value();
    for (verdict v : verdicts) {
      environment where = source->get_environment(v.environment_id).value();
      where.model = model;
      where.id = v.environment_id = sha256_hex(model);
      variant_record variant = source->get_variant(v.variant).value();
      variant.task = t.id;
      variant.group = "";
      const auto a = copy->reserve(variant, e.id);
      ASSERT_TRUE(a) << a.error().message;
      ASSERT_TRUE(copy->commit(*a, v, where));
    }
  }
}

class cluster_models : public cluster_test {
 protected:
  void SetUp() override {
    cluster_test::SetUp();
    start_node();
    auto client = connect();
    ASSERT_TRUE(client.send(run_request(two_tasks(), 8)));
    ASSERT_EQ(read_to_end(client).error, "");
    kill_node(SIGTERM);
    ASSERT_EQ(wait_node(), 0);
    std::filesystem::create_directories(source("own"));
    std::filesystem::rename(folder_ + "/store", source("own") + "/store");
    copy_as_model(source("own") + "/store", source("other") + "/store", "Other Model 9000");
  }
  std::string source(const std::string& name) const { return folder_ + "/source-" + name; }
  std::vector<std::string> replaying(const std::string& name, const std::string& latency) const {
    return {"--device", "replay",
            "--set",    "replay.source=" + source(name),
            "--set",    "replay.latency=" + latency,
            "--set",    "replay.unrecorded_in_a_row=30"};
  }
  // A coordinator with one model, and the machine b with another.
  void start_two_models(const std::string& latency = "0") {
    start_coordinator(replaying("own", latency));
    start_machine("b", "", replaying("other", latency));
    ASSERT_TRUE(wait_for_device("b/replay-cpu:0"));
  }
  void check_models(const std::string& experiment) const {
    const auto s = read_store();
    const auto e = s->get_experiment(experiment).value();
    int64_t verdicts = 0;
    for (const auto& t : e.tasks) {
      const auto all = s->verdicts_of_task(t, e.id).value();
      for (const auto& v : all) {
        ++verdicts;
        EXPECT_EQ(s->get_environment(v.environment_id)->model, e.model);
      }
    }
    EXPECT_GT(verdicts, 0);
  }
};

TEST_F(cluster_models, of_one_search_have_an_experiment_each) {
  start_two_models();
  const auto end = run_on("replay-cpu", two_tasks(), 8);
  ASSERT_TRUE(end.progress) << end.error;
  EXPECT_EQ(end.error, "");
  ASSERT_THAT(end.others, SizeIs(1));
  EXPECT_EQ(end.progress->state, "finished");
  EXPECT_EQ(end.others.front().state, "finished");
  const std::set<std::string> models = {end.progress->model, end.others.front().model};
  EXPECT_TRUE(models.contains("replay of Other Model 9000")) << *models.begin();
  EXPECT_EQ(models.size(), 2u);
  const auto s = read_store();
  const auto lead = s->get_experiment(end.progress->experiment).value(),
             other = s->get_experiment(end.others.front().experiment).value();
  EXPECT_EQ(lead.lead, "");
  EXPECT_EQ(other.lead, lead.id);
  EXPECT_EQ(other.evaluations_per_task, 8) << "the budget holds for each model";
  EXPECT_EQ(lead.device, other.device);
  check_models(lead.id);
  check_models(other.id);

  client_request by_hand;
  by_hand.verb = client_verb::evaluate;
  by_hand.task = canonical_text(relu_chain_task());
  by_hand.program = pointwise_program("x[i]");
  by_hand.device = "replay-cpu";
  EXPECT_THAT(ask_once(by_hand).error, HasSubstr("several models"));
  EXPECT_THAT(run_on("b/replay-cpu", two_tasks(), 2).others, SizeIs(0));
}

TEST_F(cluster_models, are_stopped_resumed_and_survive_a_kill_together) {
  start_two_models("1");
  auto client = connect();
  auto request = run_request(two_tasks(), 8);
  request.device = "replay-cpu";
  ASSERT_TRUE(client.send(request));
  const auto both_run = [](const client_answer& a) {
    return a.others.empty() || a.progress->evaluations < 1 || a.others.front().evaluations < 1;
  };
  const auto early = read_to_end(client, both_run);
  ASSERT_FALSE(early.last) << early.error;
  client_request stop;
  stop.verb = client_verb::stop;
  stop.experiment = early.progress->experiment;
  ASSERT_TRUE(client.send(stop));
  const auto stopped = read_to_end(client);
  ASSERT_THAT(stopped.others, SizeIs(1));
  EXPECT_EQ(stopped.progress->state, "cancelled");
  EXPECT_EQ(stopped.others.front().state, "cancelled");

  client_request resume;
  resume.verb = client_verb::run;
  resume.experiment = early.progress->experiment;
  auto second = connect();
  ASSERT_TRUE(second.send(resume));
  const auto resumed = read_to_end(second, [&](const client_answer& a) {
    return a.others.empty() || a.progress->evaluations <= stopped.progress->evaluations ||
           a.others.front().evaluations <= stopped.others.front().evaluations;
  });
  ASSERT_FALSE(resumed.last) << resumed.error;
  kill_node(SIGKILL);
  wait_node();
  start_coordinator(replaying("own", "1"));
  ASSERT_TRUE(wait_for_device("b/replay-cpu:0"));
  client_request follow;
  follow.verb = client_verb::follow;
  follow.experiment = early.progress->experiment;
  auto third = connect();
  ASSERT_TRUE(third.send(follow));
  const auto end = read_to_end(third);
  EXPECT_EQ(end.error, "");
  ASSERT_TRUE(end.progress && end.others.size() == 1);
  EXPECT_EQ(end.progress->state, "finished");
  EXPECT_EQ(end.others.front().state, "finished");
  check_models(end.progress->experiment);
  check_models(end.others.front().experiment);
}

TEST_F(cluster_models, a_device_with_the_role_policy_never_measures) {
  auto coordinator = replaying("own", "0");
  coordinator.insert(coordinator.end(), {"--set", "replay.devices=2", "--set", "device.policy_devices=replay:1"});
  start_coordinator(coordinator);
  start_machine("b", "",
                {"--device", "replay", "--set", "replay.source=" + source("own"), "--set", "replay.devices=3", "--set",
                 "device.policy_devices=replay:0,replay:2"});
  ASSERT_TRUE(wait_for_device("b/replay-cpu:1"));
  const auto now = hello();
  std::vector<std::string> measure, reserved;
  for (const auto& d : now.devices)
    measure.push_back(d.where.device);
  for (const auto& d : now.reserved)
    reserved.push_back(d.device);
  EXPECT_THAT(measure, ElementsAre("replay-cpu:0", "b/replay-cpu:1"));
  EXPECT_THAT(reserved, ElementsAre("replay-cpu:1", "b/replay-cpu:0", "b/replay-cpu:2"));
  for (const auto* device : {"replay-cpu:1", "replay-cpu:0,b/replay-cpu:2"})
    EXPECT_THAT(run_on(device, two_tasks(), 2).error,
                AllOf(HasSubstr("does not measure"), HasSubstr("device.policy_devices")));
  const auto end = run_on("replay-cpu", two_tasks(), 8);
  EXPECT_EQ(end.error, "");
  ASSERT_TRUE(end.progress);
  EXPECT_GT(end.progress->evaluations, 0);
  EXPECT_THAT(end.others, SizeIs(0)) << "they are of one model";
}

TEST_F(cluster_models, a_node_is_not_started_for_a_device_that_is_reserved) {
  spawn({"--device", "replay:1", "--set", "replay.source=" + source("own"), "--set", "replay.devices=2", "--set",
         "device.policy_devices=replay:1", "--allow-weak-confinement"});
  EXPECT_EQ(wait_node(), 2);
  EXPECT_THAT(log(), HasSubstr("device replay-cpu:1 is to measure"));
}

}  // namespace
}  // namespace cudal1
