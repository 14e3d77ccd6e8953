#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "sandbox/cuda/runtime/gpu_arena.hpp"

namespace cudal1 {
namespace {

TEST(range_set, merges_what_touches_and_splits_what_is_cut) {
  range_set s;
  s.add(0, 10);
  s.add(20, 30);
  s.add(10, 20);
  EXPECT_EQ(s.ranges(), (std::map<std::size_t, std::size_t>{{0, 30}}));
  s.remove(5, 7);
  s.remove(25, 99);
  EXPECT_EQ(s.ranges(), (std::map<std::size_t, std::size_t>{{0, 5}, {7, 25}}));
  EXPECT_EQ(s.gaps_in(2, 40), (std::map<std::size_t, std::size_t>{{5, 7}, {25, 40}}));
}

// An arena in the host's memory instead of the device's.
class arena_test : public testing::Test {
 protected:
  static constexpr std::size_t bytes = 1 << 20;
  static uint64_t pattern(std::size_t word, uint64_t seed) { return seed * 0x9e3779b97f4a7c15 + word; }

  arena_test() : words_(bytes / 8), arena_(reinterpret_cast<std::byte*>(words_.data()), bytes, reach()) {}

  poisoner reach() {
    return [this](std::span<const word_range> ranges, uint64_t seed) -> expected<void> {
      ++launches_;
      for (const auto& r : ranges)
        for (std::size_t i = r.first; i < r.first + r.words; ++i, ++poisoned_)
          words_[i] = pattern(i, seed);
      return {};
    };
  }
  // "" or which guard was written.
  std::string check() const {
    guard_damage found;
    for (const auto& r : arena_.guards())
      for (std::size_t i = r.first; i < r.first + r.words; ++i)
        if (words_[i] != pattern(i, arena_.poison_seed()) && found.words++ == 0) found.first = i;
    return found.text();
  }

  std::vector<uint64_t> words_;
  std::size_t poisoned_ = 0, launches_ = 0;
  device_arena arena_;
};

TEST_F(arena_test, a_block_may_be_written_in_full_and_nothing_beside_it) {
  ASSERT_TRUE(arena_.begin_call(1));
  auto* const a = static_cast<std::byte*>(arena_.allocate(1000));
  auto* const b = static_cast<std::byte*>(arena_.allocate(1000));
  ASSERT_NE(a, nullptr);
  ASSERT_GE(b - a, 1000 + static_cast<std::ptrdiff_t>(device_arena::gap) - 8);
  std::memset(a, 1, 1000);
  std::memset(b, 2, 1000);
  EXPECT_EQ(check(), "");
  std::memset(a + 1000, 1, 8);  // a float or two too far
  EXPECT_NE(check(), "");
}

TEST_F(arena_test, blocks_of_another_call_are_poisoned_and_have_other_addresses) {
  ASSERT_TRUE(arena_.begin_call(1));
  void* const first = arena_.allocate(4096);
  std::memset(first, 7, 4096);
  arena_.release(first);
  ASSERT_TRUE(arena_.begin_call(2));
  void* const second = arena_.allocate(4096);
  EXPECT_NE(first, second);
  for (std::size_t i = 0; i < 512; ++i)
    ASSERT_NE(static_cast<uint64_t*>(second)[i], 0x0707070707070707u) << i;
  EXPECT_EQ(check(), "");
}

TEST_F(arena_test, what_outlives_a_call_keeps_its_content) {
  ASSERT_TRUE(arena_.begin_call(1));
  void* const kept = arena_.allocate(4096);
  std::memset(kept, 7, 4096);
  for (uint64_t seed = 2; seed < 6; ++seed) {
    ASSERT_TRUE(arena_.begin_call(seed));
    EXPECT_EQ(static_cast<uint64_t*>(kept)[100], 0x0707070707070707u);
    void* const other = arena_.allocate(100'000);
    ASSERT_NE(other, nullptr);
    EXPECT_TRUE(other >= static_cast<std::byte*>(kept) + 4096 || static_cast<std::byte*>(other) + 100'000 <= kept);
    EXPECT_EQ(check(), "");
    arena_.release(other);
  }
}

TEST_F(arena_test, memory_of_a_capture_is_not_reused_until_it_is_given_back) {
  ASSERT_TRUE(arena_.begin_call(1));
  arena_.begin_capture();
  const std::size_t before = poisoned_;
  auto* const captured = static_cast<std::byte*>(arena_.allocate(300'000));
  arena_.release(captured);
  const auto held = arena_.end_capture();
  EXPECT_EQ(poisoned_, before);  // a fill would become part of the graph
  EXPECT_EQ(held.payload.ranges().size(), 1u);
  // A call that replays it may write there, another one may not.
  ASSERT_TRUE(arena_.begin_call(2));
  arena_.use(held);
  std::memset(captured, 1, 300'000);
  EXPECT_EQ(check(), "");
  ASSERT_TRUE(arena_.begin_call(3));
  std::memset(captured, 1, 8);
  EXPECT_NE(check(), "");
  auto* const other = static_cast<std::byte*>(arena_.allocate(300'000));
  EXPECT_TRUE(other >= captured + 300'000 || other + 300'000 <= captured);
  arena_.give_back(held);
  arena_.release(other);
  std::size_t room = 0;
  while (void* const block = arena_.allocate(100'000)) {
    ++room;
    (void)block;
  }
  EXPECT_GE(room, 9u);
}

TEST_F(arena_test, a_block_that_is_apart_shares_its_address_with_none_of_the_capture) {
  ASSERT_TRUE(arena_.begin_call(1));
  for (const bool apart : {false, true}) {
    arena_.begin_capture();
    void* const first = arena_.allocate(4096);
    EXPECT_EQ(arena_.block_of(static_cast<std::byte*>(first) + 4095).data(), first);
    EXPECT_EQ(arena_.block_of(first).size(), 4096u);
    EXPECT_TRUE(arena_.block_of(static_cast<std::byte*>(first) + 4096).empty());
    arena_.release(first);
    if (apart) arena_.begin_apart();
    void* const second = arena_.allocate(4096);
    arena_.end_apart();
    EXPECT_EQ(first == second, !apart);
    arena_.release(second);
    EXPECT_EQ(arena_.allocate(4096), first);
    arena_.release(first);
    arena_.give_back(arena_.end_capture());
  }
}

TEST_F(arena_test, released_blocks_are_not_reused_while_they_are_kept) {
  ASSERT_TRUE(arena_.begin_call(1));
  arena_.keep_released();
  void* const first = arena_.allocate(4096);
  arena_.release(first);
  void* const second = arena_.allocate(4096);
  EXPECT_NE(first, second);
  EXPECT_EQ(arena_.bytes_in_use(), 8192u);
  arena_.reuse_released();
  EXPECT_EQ(arena_.bytes_in_use(), 4096u);
  EXPECT_EQ(arena_.allocate(4096), first);
  arena_.release(second);
  EXPECT_EQ(arena_.bytes_in_use(), 4096u);
}

// A smaller call before it must not cause a call to poison memory while it is timed.
TEST_F(arena_test, a_call_finds_its_memory_poisoned_whatever_the_call_before_it_took) {
  ASSERT_TRUE(arena_.begin_call(1, call_need::not_counted));
  void* const workspace = arena_.allocate(30'000);
  ASSERT_NE(workspace, nullptr);
  const auto call = [&](const std::vector<std::size_t>& sizes) {
    std::vector<void*> blocks;
    const std::size_t before = launches_;
    for (const std::size_t size : sizes)
      blocks.push_back(arena_.allocate(size));
    const std::size_t launches = launches_ - before;
    EXPECT_EQ(launches, arena_.late_blocks());
    for (void* const block : blocks)
      arena_.release(block);
    return launches;
  };
  const std::vector<std::size_t> large{100'000, 20'000, 200'000, 5'000}, small{700};
  ASSERT_TRUE(arena_.begin_call(2));
  (void)call(large);
  for (uint64_t seed = 3; seed < 60; ++seed) {
    ASSERT_TRUE(arena_.begin_call(seed));
    EXPECT_EQ(call(seed % 3 == 0 ? large : small), 0U) << seed;
    EXPECT_EQ(check(), "");
  }
  arena_.forget_needs();
  ASSERT_TRUE(arena_.begin_call(60));
  EXPECT_EQ(call(small), 0U);
  ASSERT_TRUE(arena_.begin_call(61));
  EXPECT_GT(call(large), 0U) << "no recent call took as much";
}

TEST_F(arena_test, kept_memory_is_not_reused_and_is_poisoned_once_it_is_let_go) {
  ASSERT_TRUE(arena_.begin_call(1));
  const auto keep = [&](int content) {
    auto* const kept = static_cast<unsigned char*>(arena_.keep(10'000));
    std::memset(kept, content, 10'000);
    return kept;
  };
  auto* const first = keep(7);
  const std::size_t mark = arena_.kept_mark();
  auto* const second = keep(8);
  EXPECT_GE(first, second + 10'000);
  arena_.drop_kept_to(mark);
  ASSERT_TRUE(arena_.begin_call(2));
  EXPECT_EQ(first[9'999], 7);
  EXPECT_NE(second[5'000], 8);
  EXPECT_EQ(keep(9), second);
  while (void* const block = arena_.allocate(20'000))
    EXPECT_LE(static_cast<unsigned char*>(block) + 20'000, second);
  EXPECT_EQ(arena_.keep(20'000), nullptr);
  arena_.drop_kept();
  ASSERT_TRUE(arena_.begin_call(3));
  EXPECT_NE(first[5'000], 7);
  EXPECT_NE(second[5'000], 9);
}

TEST_F(arena_test, there_is_no_room_beyond_the_limit) {
  EXPECT_EQ(arena_.allocate(bytes + 1), nullptr);
  EXPECT_EQ(arena_.allocate(0), nullptr);
  void* const most = arena_.allocate(bytes - device_arena::gap);
  EXPECT_NE(most, nullptr);
  EXPECT_EQ(arena_.allocate(1), nullptr);
  arena_.release(most);
  EXPECT_NE(arena_.allocate(1), nullptr);
}

// The same in parts of which the first is accessible.
class parted_arena_test : public arena_test {
 protected:
  static constexpr std::size_t part = bytes / 4;
  parted_arena_test() {
    arena_ = device_arena(reinterpret_cast<std::byte*>(words_.data()), {part, part, 2 * part}, reach(),
                          [this](std::size_t parts) -> expected<void> {
                            accessible_ = parts;
                            return {};
                          });
  }
  std::size_t untouched_bytes() const {
    std::size_t found = 0;
    for (const auto& r : arena_.untouched())
      found += 8 * r.words;
    return found;
  }
  std::string check_untouched() const {
    guard_damage found;
    for (const auto& r : arena_.untouched())
      for (std::size_t i = r.first; i < r.first + r.words; ++i)
        if (words_[i] != pattern(i, arena_.wipe_seed()) && found.words++ == 0) found.first = i;
    return found.text();
  }
  std::size_t accessible_ = 1;
};

TEST_F(parted_arena_test, what_no_call_took_is_wiped_before_a_program_and_a_far_write_is_found) {
  ASSERT_TRUE(arena_.wipe(5));
  ASSERT_TRUE(arena_.begin_call(1));
  void* const block = arena_.allocate(40'000);
  void* const kept = arena_.keep(10'000);
  std::memset(block, 1, 40'000);
  std::memset(kept, 1, 10'000);
  EXPECT_EQ(check() + check_untouched(), "");
  EXPECT_GT(untouched_bytes(), part / 2);
  arena_.release(block);
  const std::size_t far = 200'000 / 8;
  words_[far] = 0x0707070707070707;
  EXPECT_EQ(check(), "");
  EXPECT_NE(check_untouched(), "") << "a call's own guards end before it";
  ASSERT_TRUE(arena_.wipe(6));
  EXPECT_NE(words_[far], 0x0707070707070707u);
  ASSERT_TRUE(arena_.begin_call(2));
  EXPECT_EQ(check_untouched(), "");
}

TEST_F(parted_arena_test, parts_are_accessible_while_they_are_needed) {
  ASSERT_TRUE(arena_.wipe(1));
  ASSERT_TRUE(arena_.begin_call(1));
  auto* const kept = static_cast<unsigned char*>(arena_.keep(50'000));
  std::memset(kept, 7, 50'000);
  void* const large = arena_.allocate(300'000);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(accessible_, 3U);
  EXPECT_TRUE(kept + 50'000 <= large || static_cast<unsigned char*>(large) + 300'000 <= kept);
  auto* const mark = arena_.keep(20'000);
  EXPECT_GE(static_cast<std::byte*>(mark), reinterpret_cast<std::byte*>(words_.data()) + 2 * part);
  arena_.release(large);
  ASSERT_TRUE(arena_.begin_call(2));
  EXPECT_EQ(kept[49'999], 7) << "kept until it is let go";
  EXPECT_EQ(arena_.late_blocks(), 0U);
  void* const again = arena_.allocate(300'000);
  EXPECT_EQ(arena_.late_blocks(), 0U);
  EXPECT_EQ(check() + check_untouched(), "");
  arena_.release(again);
  arena_.drop_kept();
  ASSERT_TRUE(arena_.begin_call(3));
  EXPECT_NE(kept[25'000], 7);
  arena_.forget_needs();
  ASSERT_TRUE(arena_.wipe(2));
  EXPECT_EQ(accessible_, 1U);
  ASSERT_TRUE(arena_.begin_call(4));
  void* const lasting = arena_.allocate(1000);
  EXPECT_NE(lasting, nullptr);
  EXPECT_EQ(arena_.allocate(bytes), nullptr) << "more than there is";
  EXPECT_EQ(accessible_, 3U);
  ASSERT_TRUE(arena_.wipe(3));
  EXPECT_EQ(accessible_, 1U) << "the block lies in the first";
}

TEST_F(parted_arena_test, a_mark_from_before_it_grew_lets_go_of_what_came_after) {
  ASSERT_TRUE(arena_.wipe(1));
  ASSERT_TRUE(arena_.begin_call(1));
  (void)arena_.keep(50'000);
  const std::size_t mark = arena_.kept_mark();
  ASSERT_NE(arena_.keep(240'000), nullptr);
  EXPECT_GT(accessible_, 1U);
  arena_.drop_kept_to(mark);
  EXPECT_NE(arena_.keep(240'000), nullptr);
  arena_.drop_kept();
  EXPECT_EQ(arena_.kept_mark(), bytes / 4 * accessible_);
}

}  // namespace
}  // namespace cudal1
