// Work that several workers share.
#include "tools/cli/share_out.hpp"

#include <atomic>
#include <barrier>
#include <numeric>
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

TEST(share_out, does_each_item_once_with_all_workers_at_once) {
  constexpr std::size_t workers = 4, items = 200;
  std::vector<std::atomic<int>> times(items);
  std::vector<std::set<std::thread::id>> threads(workers);
  std::barrier all_have_one(workers);
  const auto done = share_out(workers, items, never, [&](std::size_t worker, std::size_t item) -> expected<void> {
    if (threads[worker].empty()) all_have_one.arrive_and_wait();  // else the test hangs
    threads[worker].insert(std::this_thread::get_id());
    ++times[item];
    return {};
  });
  EXPECT_TRUE(done);
  EXPECT_THAT(std::vector<int>(times.begin(), times.end()), Each(1));
  EXPECT_THAT(threads, Each(testing::SizeIs(1)));
}

TEST(share_out, begins_nothing_after_an_error_and_gives_it) {
  std::vector<std::size_t> begun;
  const auto done = share_out(1, 10, never, [&](std::size_t, std::size_t item) -> expected<void> {
    begun.push_back(item);
    if (item == 2) return fail(errc::refused, "no");
    return {};
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, errc::refused);
  EXPECT_THAT(begun, ElementsAre(0, 1, 2));
}

TEST(share_out, begins_nothing_once_it_is_over) {
  std::atomic<int> begun = 0;
  const auto work = [&](std::size_t, std::size_t) -> expected<void> {
    ++begun;
    return {};
  };
  EXPECT_TRUE(share_out(
      3, 100, [&] { return begun >= 10; }, work));
  EXPECT_GE(begun, 10);
  EXPECT_LT(begun, 13);
  EXPECT_TRUE(share_out(3, 0, never, work));
}

}  // namespace
}  // namespace cudal1::cli
