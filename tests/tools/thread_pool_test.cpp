#include "tools/baseline/thread_pool.hpp"

#include <atomic>
#include <barrier>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1::cli {
namespace {

using testing::Each;
using testing::ElementsAre;

bool never() {
  return false;
}

TEST(thread_pool, does_each_item_once_with_all_workers_at_once) {
  constexpr std::size_t workers = 4, items = 200;
  std::vector<std::atomic<int>> times(items);
  std::vector<std::set<std::thread::id>> threads(workers);
  std::barrier all_have_one(workers);
  thread_pool all(workers);
  const auto done = all.for_each(items, never, [&](std::size_t worker, std::size_t item) -> expected<void> {
    if (threads[worker].empty()) all_have_one.arrive_and_wait();  // else the test hangs
    threads[worker].insert(std::this_thread::get_id());
    ++times[item];
    return {};
  });
  EXPECT_TRUE(done);
  EXPECT_THAT(std::vector<int>(times.begin(), times.end()), Each(1));
  EXPECT_THAT(threads, Each(testing::SizeIs(1)));
}

TEST(thread_pool, starts_nothing_after_an_error_and_returns_it) {
  std::vector<std::size_t> begun;
  thread_pool one(1);
  const auto done = one.for_each(10, never, [&](std::size_t, std::size_t item) -> expected<void> {
    begun.push_back(item);
    if (item == 2) return fail(errc::refused, "no");
    return {};
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, errc::refused);
  EXPECT_THAT(begun, ElementsAre(0, 1, 2));
}

TEST(thread_pool, starts_nothing_once_it_is_over) {
  std::atomic<int> begun = 0;
  const auto work = [&](std::size_t, std::size_t) -> expected<void> {
    ++begun;
    return {};
  };
  thread_pool three(3);
  EXPECT_TRUE(three.for_each(
      100, [&] { return begun >= 10; }, work));
  EXPECT_GE(begun, 10);
  EXPECT_LT(begun, 13);
  EXPECT_TRUE(three.for_each(0, never, work));
}

// A process that a worker starts may end with its thread.
TEST(thread_pool, keeps_its_threads_from_round_to_round) {
  constexpr std::size_t workers = 3;
  thread_pool all(workers);
  std::vector<std::set<std::thread::id>> threads(workers);
  for (int round = 0; round < 20; ++round) {
    std::barrier all_have_one(workers);
    EXPECT_TRUE(all.for_each(workers, never, [&](std::size_t worker, std::size_t) -> expected<void> {
      all_have_one.arrive_and_wait();
      threads[worker].insert(std::this_thread::get_id());
      return {};
    }));
  }
  EXPECT_THAT(threads, Each(testing::SizeIs(1)));
}

}  // namespace
}  // namespace cudal1::cli
