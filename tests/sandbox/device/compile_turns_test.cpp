// Turns for a compiler's processes.
#include "sandbox/device/compile_turns.hpp"

#include <atomic>
#include <future>
#include <set>
#include <thread>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

TEST(compile_turns, all_work_is_done_and_never_more_of_it_at_once) {
  compile_turns turns(3);
  std::atomic<int> at_once{0}, most{0};
  std::atomic<int> sum{0};
  const auto work = [&](std::size_t i) -> expected<void> {
    const int now = ++at_once;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    sum += static_cast<int>(i);
    --at_once;
    return {};
  };
  auto other = std::async(std::launch::async, [&] { return turns.run(100, work); });
  EXPECT_TRUE(turns.run(100, work));
  EXPECT_TRUE(other.get());
  EXPECT_EQ(sum, 2 * 4950);
  EXPECT_LE(most, 3);
  EXPECT_TRUE(turns.run(0, work));
}

TEST(compile_turns, several_parts_of_one_program_run_at_the_same_time) {
  compile_turns turns(2);
  std::promise<void> first, second;
  const auto result = turns.run(2, [&](std::size_t i) -> expected<void> {
    // Each waits for the other.
    (i == 0 ? first : second).set_value();
    (i == 0 ? second : first).get_future().wait();
    return {};
  });
  EXPECT_TRUE(result);
}

TEST(compile_turns, a_single_one_runs_in_the_calling_thread) {
  compile_turns turns(8);
  const auto here = std::this_thread::get_id();
  EXPECT_TRUE(turns.run(1, [&](std::size_t) -> expected<void> {
    EXPECT_EQ(std::this_thread::get_id(), here);
    return {};
  }));
}

TEST(compile_turns, after_an_error_no_work_begins) {
  compile_turns turns(1);
  std::set<std::size_t> begun;
  const auto result = turns.run(10, [&](std::size_t i) -> expected<void> {
    begun.insert(i);
    if (i == 2) return fail(errc::timeout, "work {}", i);
    return {};
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "work 2");
  EXPECT_EQ(begun, (std::set<std::size_t>{0, 1, 2}));
}

TEST(compile_turns, a_program_waits_for_one_part_of_another_not_for_all) {
  compile_turns turns(2);
  std::atomic<int> parts{0}, parts_before_other{0};
  std::promise<void> both_run, other_is_done;
  const auto done = other_is_done.get_future().share();
  std::future<expected<void>> other;
  const auto result = turns.run(50, [&](std::size_t i) -> expected<void> {
    ++parts;
    if (i == 1) both_run.set_value();
    if (i == 0) {
      both_run.get_future().wait();
      other = std::async(std::launch::async, [&] {
        return turns.run(1, [&](std::size_t) -> expected<void> {
          parts_before_other = parts.load();
          other_is_done.set_value();
          return {};
        });
      });
    }
    // Both turns are taken until the other program asks for one; then one is the first program's, the other is not.
    if (i < 2)
      while (turns.waiting() == 0 && parts_before_other == 0)
        std::this_thread::yield();
    else
      done.wait();
    return {};
  });
  EXPECT_TRUE(result);
  EXPECT_TRUE(other.get());
  EXPECT_LE(parts_before_other, 3);
  EXPECT_EQ(parts, 50);
}

}  // namespace
}  // namespace cudal1
