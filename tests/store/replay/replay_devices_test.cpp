#include "store/replay/replay_devices.hpp"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "sandbox/device/device_names.hpp"
#include "tests/store/replay/replay_fixture.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(replay_devices, are_a_kind_for_each_kind_that_measures) {
  const replay_devices replays;
  EXPECT_EQ(traits_of("replay-cpu:1").replays, "cpu");
  EXPECT_EQ(traits_of("replay-cuda").replays, "cuda");
  EXPECT_EQ(traits_of("replay-cuda").target, traits_of("cuda").target);
  EXPECT_EQ(traits_of("replay-cuda").profile, "cuda");
  EXPECT_TRUE(traits_of("replay-cuda").is_accelerator);
  EXPECT_THAT(traits_of("replay-cpu").remark, HasSubstr("replayed from stored verdicts, not measured"));
  EXPECT_EQ(default_configuration("replay-cuda").timing.fork_bias, default_configuration("cuda").timing.fork_bias);
  EXPECT_EQ(*kind_of_devices("replay-cpu:0,replay-cpu:1"), "replay-cpu");
}

TEST(replay_devices, end_with_their_object) {
  { const replay_devices replays; }
  EXPECT_EQ(find_device_type("replay-cpu"), nullptr);
  EXPECT_THAT(known_device_names(), Not(HasSubstr("replay")));
}

TEST(replay_devices, are_never_chosen_automatically) {
  recorded_search search;
  search.add_timed(search.begin(), "fast", 2);
  replay_devices replays;
  replays.use(*search.replay());
  EXPECT_EQ(preferred_device_type().traits().replays, "");
  const auto none = [](const device_type& type) -> expected<std::vector<found_device>> {
    if (!type.traits().replays.empty()) ADD_FAILURE() << type.traits().kind << " was listed";
    return std::vector<found_device>();
  };
  EXPECT_FALSE(choose_devices("auto", none)) << "not even where nothing else is left";
}

TEST(replay_devices, exist_once_they_have_a_source) {
  recorded_search search;
  search.add_timed(search.begin(), "fast", 2);
  replay_devices replays;
  EXPECT_THAT(find_devices("replay-cpu").error().message,
              AllOf(HasSubstr("there is no device replay-cpu"), HasSubstr("replay.source")));
  replaying_options o;
  o.devices = 3;
  replays.use(*search.replay(o));
  const auto found = find_devices("replay-cpu");
  ASSERT_TRUE(holds(found));
  ASSERT_EQ(found->size(), 3U);
  EXPECT_EQ(found->back().name, "replay-cpu:2");
  EXPECT_EQ(found->back().model, "replay of a processor");
  EXPECT_THAT(find_devices("replay-cuda").error().message, HasSubstr("names no verdicts of cuda"));
}

TEST(replay_names, stand_for_the_kind_that_is_replayed) {
  EXPECT_EQ(with_replayed_kind("replay", "cpu"), "replay-cpu");
  EXPECT_EQ(with_replayed_kind("replay:0, replay:2,replay-cpu:1", "cpu"), "replay-cpu:0,replay-cpu:2,replay-cpu:1");
  EXPECT_EQ(with_replayed_kind("cuda:0", "cpu"), "cuda:0");
  EXPECT_TRUE(names_replay("replay"));
  EXPECT_TRUE(names_replay("cpu, replay:1"));
  EXPECT_TRUE(names_replay("replay-cuda:0"));
  EXPECT_FALSE(names_replay(""));
  EXPECT_FALSE(names_replay("auto"));
  EXPECT_FALSE(names_replay("cpu,cuda:0"));
}

TEST(replay_names, appear_in_the_advice_on_a_wrong_name) {
  const replay_devices replays;
  EXPECT_THAT(read_device_list("tpu").error().message,
              HasSubstr("devices are cpu, cuda:0, cuda:1, ... and cuda, which is every GPU, replay, which answers from "
                        "stored verdicts"));
}

class replay_session : public testing::Test {
 protected:
  void start(double latency) {
    search_.add_timed(search_.begin(), "fast", 2);
    replaying_options o;
    o.latency = latency;
    replays_.use(*search_.replay(o));
    session_options options;
    options.device = "replay-cpu:0";
    auto started = device_session::start(options);
    ASSERT_TRUE(holds(started));
    session_ = std::move(*started);
  }
  recorded_search search_;
  replay_devices replays_;
  std::unique_ptr<device_session> session_;
};

TEST_F(replay_session, answers_from_its_recording_and_runs_nothing) {
  start(0);
  EXPECT_EQ(session_->report().where.model, "replay of a processor");
  auto* const recording = session_->recording();
  ASSERT_NE(recording, nullptr);
  EXPECT_NEAR(recording->draw("task-a", make_variant("fast").id)->score, 2, 0.1);
  EXPECT_TRUE(holds(recording->wait(0)));
  EXPECT_EQ(session_->check({}, {}, {}).error().code, errc::unsupported);
  EXPECT_EQ(session_->time({}, {}, {}, 0).error().code, errc::unsupported);
  EXPECT_TRUE(holds(session_->forget_tasks()));
}

TEST_F(replay_session, leaves_the_time_of_the_compiler_to_the_compiler) {
  start(1);
  EXPECT_FALSE(session_->recording()->draw("task-a", make_variant("fast").id)->stage_ms.contains("compile"));
  auto compiler = find_device_type("replay-cpu")->make_compiler({});
  ASSERT_TRUE(holds(compiler));
  checked_program p;
  p.id = make_variant("fast").id;
  const auto code = (*compiler)->compile(p);
  ASSERT_TRUE(holds(code));
  EXPECT_EQ(code->object, "");
  EXPECT_EQ(code->compile_ms, 200);
  EXPECT_EQ((*compiler)->compile(p, 0.05)->compile_ms, 50) << "its time limit";
  p.id = "unknown";
  EXPECT_EQ((*compiler)->compile(p)->compile_ms, 0);
}

TEST_F(replay_session, can_be_cancelled_while_its_latency_passes) {
  start(1);
  std::atomic<bool> ended = false;
  std::thread other([&] {
    while (!ended)  // before the wait has begun, it has no effect
      session_->cancel();
  });
  const auto waited = session_->recording()->wait(1e7);
  ended = true;
  other.join();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, errc::cancelled);
}

}  // namespace
}  // namespace cudal1
