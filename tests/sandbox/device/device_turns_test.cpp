// One at a time on a device, in the order of asking.
#include "sandbox/device/device_turns.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

TEST(device_turns, come_one_after_the_other_in_the_order_of_asking) {
  device_turns turns;
  std::vector<int> begun;
  std::vector<device_turns::turn> held;
  for (const int i : {1, 2, 3})
    turns.ask("cuda:0", [&, i](device_turns::turn t) {
      begun.push_back(i);
      held.push_back(std::move(t));
    });
  EXPECT_EQ(begun, std::vector({1}));
  EXPECT_TRUE(turns.is_awaited("cuda:0"));
  turns.ask("cuda:1", [&](device_turns::turn t) { EXPECT_TRUE(t) << "another device is free"; });
  auto first = std::move(held[0]);
  first.end();
  EXPECT_EQ(begun, std::vector({1, 2}));
  first.end();  // has ended
  EXPECT_EQ(begun, std::vector({1, 2}));
  auto second = std::move(held[1]);
  second = {};
  EXPECT_EQ(begun, std::vector({1, 2, 3}));
  EXPECT_FALSE(turns.is_awaited("cuda:0"));
  held.clear();
  EXPECT_TRUE(turns.wait_for("cuda:0"));
}

TEST(device_turns, that_nobody_keeps_end_at_once) {
  device_turns turns;
  auto mine = turns.wait_for("cpu");
  turns.ask("cpu", [](const device_turns::turn&) {});
  int begun = 0;
  turns.ask("cpu", [&](const device_turns::turn&) { ++begun; });
  mine.end();
  EXPECT_EQ(begun, 1);
  EXPECT_TRUE(turns.wait_for("cpu"));
}

TEST(device_turns, exclude_each_other_between_threads) {
  device_turns turns;
  std::atomic<int> inside = 0, most = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 200; ++k) {
          const auto turn = turns.wait_for("cuda:0");
          most = std::max<int>(most, ++inside);
          std::this_thread::yield();
          --inside;
        }
      });
  }
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace cudal1
