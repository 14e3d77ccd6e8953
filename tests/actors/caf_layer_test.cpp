// What we rely on of requests between actors.
#include "actors/caf_layer.hpp"

#include <future>
#include <string>
#include <thread>

#include <caf/all.hpp>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"

namespace cudal1 {
namespace {

constexpr duration timeout{50}, busy{250};

// What an actor hears that asks, is busy for longer than its timeout, and looks then.
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

TEST(errors, none_is_what_an_actor_says_that_ended_in_order) {
  EXPECT_EQ(from_caf(caf::error{}).message, "an actor ended in order");
}

TEST(requests, an_answer_that_came_in_time_counts_though_who_asked_was_busy_longer) {
  caf::actor_system_config config;
  caf::actor_system system(config);
  EXPECT_EQ(heard_after_work(system, duration(0)), "7");
  EXPECT_EQ(heard_after_work(system, 2 * timeout), "timeout");
}

}  // namespace
}  // namespace cudal1
