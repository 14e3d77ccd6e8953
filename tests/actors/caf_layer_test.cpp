// The behaviour of requests that the actors rely on.
#include "actors/messages/caf_layer.hpp"

#include <future>
#include <string>
#include <thread>

#include <caf/all.hpp>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"

namespace cudal1 {
namespace {

constexpr duration timeout{50}, busy{250};

// The result of a request whose sender is busy for longer than the timeout and only then handles its messages.
std::string heard_after_work(caf::actor_system& system, duration answered_after) {
  const auto answering = system.spawn<caf::detached>([=](caf::event_based_actor*) -> caf::behavior {
    return {[=](int value) {
      std::this_thread::sleep_for(answered_after);
      return value + 1;
    }};
  });
  std::promise<std::string> heard;
  system.spawn<caf::detached>([&](caf::event_based_actor* self) {
    ask<int>(
        self, answering, timeout, 6, [&](int value) { heard.set_value(std::to_string(value)); },
        [&](const error& e) { heard.set_value(enum_name(e.code)); });
    std::this_thread::sleep_for(busy);
  });
  return heard.get_future().get();
}

TEST(errors, an_empty_one_means_that_an_actor_ended_normally) {
  EXPECT_EQ(from_caf(caf::error{}).message, "an actor ended normally");
}

TEST(requests, a_timely_reply_counts_even_if_the_sender_was_busy_past_the_timeout) {
  caf::actor_system_config config;
  caf::actor_system system(config);
  EXPECT_EQ(heard_after_work(system, duration(0)), "7");
  EXPECT_EQ(heard_after_work(system, 2 * timeout), "timeout");
}

}  // namespace
}  // namespace cudal1
