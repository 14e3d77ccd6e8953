// A client that holds a device: no other client uses the device meanwhile, and its baselines are stored.
#include <set>

#include "store/exemplars.hpp"
#include "tests/actors/node_fixture.hpp"

namespace cudal1 {
namespace {

class node_holds : public node_test {
 protected:
  static client_request hold_request(const std::string& device = "cpu") {
    client_request r;
    r.verb = client_verb::hold;
    r.device = device;
    return r;
  }
  static client_request keep_request(const task& t) {
    client_request r;
    r.verb = client_verb::keep_baseline;
    r.task = canonical_text(t);
    r.baseline.emplace();
    r.baseline->task = t.id;
    r.baseline->kind = "eager";
    r.baseline->call_us = 12.5;
    r.baseline->call_samples = {12, 12.5, 13};
    return r;
  }
  static client_request evaluate_request(const task& t) {
    client_request r;
    r.verb = client_verb::evaluate;
    r.task = canonical_text(t);
    r.program = pointwise_program("fabsf(0.5f * fmaxf(x[i], 0.0f)) * 3.0f");
    return r;
  }
};

TEST_F(node_holds, a_held_device_is_exclusive_until_its_client_disconnects) {
  start_node();
  auto run = run_request({relu_chain_task()}, 1);
  {
    auto holder = connect();
    ASSERT_TRUE(holder.send(hold_request()));
    const auto held = read_to_end(holder);
    ASSERT_TRUE(held.hold) << held.error;
    EXPECT_NE(held.hold->number, 0U);
    EXPECT_EQ(held.hold->device.where.device, "cpu");

    const auto refused = ask_once(run);
    EXPECT_EQ(refused.error_code, "refused");
    EXPECT_NE(refused.error.find("cpu is held by `cudal1 baseline`"), std::string::npos) << refused.error;
    EXPECT_EQ(ask_once(evaluate_request(relu_chain_task())).error_code, "refused");
    EXPECT_EQ(ask_once(hold_request()).error_code, "refused") << "one at a time";

    ASSERT_TRUE(holder.send(evaluate_request(relu_chain_task())));
    const auto own = read_to_end(holder);
    ASSERT_TRUE(own.result) << own.error;
    EXPECT_TRUE(own.result->result == outcome::correct || own.result->result == outcome::unmeasurable)
        << own.result->reason;
  }
  // The node notices the disconnection when it next polls the socket.
  ASSERT_TRUE(wait_until([&] {
    auto client = connect();
    EXPECT_TRUE(client.send(run));
    return read_to_end(client).error_code.empty();
  }));
}

TEST_F(node_holds, a_device_that_is_in_use_or_missing_cannot_be_held) {
  start_node();
  EXPECT_EQ(ask_once(hold_request("cuda:7")).error_code, "invalid_argument");
  auto client = connect();
  ASSERT_TRUE(client.send(run_request({relu_chain_task(), diagonal_task()}, 1000)));
  ASSERT_FALSE(read_to_end(client, [](const client_answer&) { return false; }).last);
  const auto refused = ask_once(hold_request());
  EXPECT_EQ(refused.error_code, "refused");
  EXPECT_NE(refused.error.find("experiment e1 runs on cpu"), std::string::npos) << refused.error;
}

TEST_F(node_holds, a_baseline_is_stored_with_its_task_and_the_devices_environment) {
  start_node();
  const task t = relu_chain_task();
  EXPECT_EQ(ask_once(keep_request(t)).error_code, "refused") << "only a client that holds the device may";
  auto holder = connect();
  ASSERT_TRUE(holder.send(hold_request()));
  const auto held = read_to_end(holder);
  ASSERT_TRUE(held.hold) << held.error;
  auto wrong = keep_request(t);
  wrong.baseline->task = diagonal_task().id;
  ASSERT_TRUE(holder.send(wrong));
  EXPECT_EQ(read_to_end(holder).error_code, "invalid_argument");
  ASSERT_TRUE(holder.send(keep_request(t)));
  const auto kept = read_to_end(holder);
  ASSERT_EQ(kept.error, "");

  const auto s = read_store();
  const auto back = s->baselines_of_task(t.id);
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), 1U);
  EXPECT_EQ(back->front().environment_id, held.hold->device.where.id);
  EXPECT_EQ(back->front().call_samples, (std::vector<double>{12, 12.5, 13}));
  EXPECT_GT(back->front().time_unix_ms, 0);
  EXPECT_EQ(s->get_environment(held.hold->device.where.id)->model, held.hold->device.where.model);
  EXPECT_EQ(s->get_task(t.id)->name, t.name);
}

// So that no verdict by the one tolerance is taken for one by the other.
TEST_F(node_holds, a_device_held_to_another_tolerance_is_another_environment) {
  std::vector<environment> found;
  for (const char* tolerance : {"own", "kernelbench", "half"}) {
    start_node({"--set", fmt::format("verification.tolerance={}", tolerance)});
    auto holder = connect();
    ASSERT_TRUE(holder.send(hold_request()));
    auto held = read_to_end(holder);
    ASSERT_TRUE(held.hold) << held.error;
    ASSERT_TRUE(holder.send(evaluate_request(relu_chain_task())));
    const auto own = read_to_end(holder);
    ASSERT_TRUE(own.result) << own.error;
    EXPECT_TRUE(own.result->result == outcome::correct || own.result->result == outcome::unmeasurable)
        << own.result->reason;
    found.push_back(held.hold->device.where);
    EXPECT_EQ(own.result->environment_id, found.back().id);
    kill_node(SIGKILL);
    wait_node();
  }
  const std::set<std::string> ids{found[0].id, found[1].id, found[2].id},
      classes{environment_class(found[0]), environment_class(found[1]), environment_class(found[2])};
  EXPECT_EQ(ids.size(), 3U);
  EXPECT_EQ(classes.size(), 3U);
}

}  // namespace
}  // namespace cudal1
