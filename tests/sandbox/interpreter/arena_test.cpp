#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "sandbox/interpreter/tensor_arena.hpp"

namespace cudal1 {
namespace {

class arena_test : public ::testing::Test {
 protected:
  static constexpr std::size_t size = 8 << 20;
  arena_test() : memory_(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~arena_test() override { munmap(memory_, size); }

  char* take(arena& a, std::size_t bytes, const char* label = nullptr) {
    bool had_room = true;
    auto* data = static_cast<char*>(a.allocate(bytes, label, had_room));
    EXPECT_TRUE(had_room);
    return data;
  }
  arena_options options(uint64_t seed = 1) { return {memory_, size, seed}; }

  void* memory_;
};

TEST_F(arena_test, blocks_are_aligned_disjoint_and_counted) {
  arena a(options());
  auto *x = take(a, 100), *y = take(a, 4096);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(y) % 64, 0u);
  EXPECT_GE(std::abs(y - x), 100);
  EXPECT_EQ(a.bytes_in_use(), 4196);
  a.release(x);
  a.release(y);
  EXPECT_EQ(a.bytes_in_use(), 0);
  EXPECT_EQ(a.peak_bytes(), 4196);
}

TEST_F(arena_test, an_allocation_of_no_bytes_is_a_null_pointer) {
  arena a(options());
  bool had_room = false;
  EXPECT_EQ(a.allocate(0, nullptr, had_room), nullptr);
  EXPECT_TRUE(had_room);
  a.release(nullptr);
}

TEST_F(arena_test, a_write_after_a_block_is_found_and_names_its_step) {
  arena a(options());
  auto* x = take(a, 100, "step 2 (alloc y)");
  std::memset(x, 1, 100);
  EXPECT_TRUE(a.check_guards().intact);
  x[100] = static_cast<char>(~x[100]);
  const auto report = a.check_guards();
  EXPECT_FALSE(report.intact);
  EXPECT_EQ(report.problem, "1 bytes after the end of the 100 bytes of step 2 (alloc y) were overwritten");
}

TEST_F(arena_test, writes_before_a_block_are_found_even_after_its_release) {
  arena a(options());
  auto* x = take(a, 64);
  x[-1] = static_cast<char>(~x[-1]);
  x[-64] = static_cast<char>(~x[-64]);
  a.release(x);
  EXPECT_NE(a.check_guards().problem.find("2 bytes before the start"), std::string::npos);
  a.begin_call(5);
  EXPECT_TRUE(a.check_guards().intact);
}

TEST_F(arena_test, allocations_are_limited_by_the_mapping) {
  arena a(options());
  bool had_room = true;
  EXPECT_EQ(a.allocate(size, nullptr, had_room), nullptr);
  EXPECT_FALSE(had_room);
  EXPECT_EQ(a.allocate(~std::size_t{0} - 8, nullptr, had_room), nullptr);
  EXPECT_FALSE(had_room);
  auto* most = take(a, size - 4096);
  EXPECT_EQ(a.allocate(1 << 20, nullptr, had_room), nullptr);
  EXPECT_FALSE(had_room);
  a.release(most);
  take(a, 1 << 20);
}

TEST_F(arena_test, released_memory_is_used_again_in_the_same_call) {
  arena a(options());
  const auto* first = take(a, 1 << 20);
  a.release(const_cast<char*>(first));
  for (int i = 0; i < 100; ++i) {
    auto* again = take(a, 1 << 20);
    EXPECT_EQ(again, first);
    a.release(again);
  }
}

TEST_F(arena_test, addresses_move_from_call_to_call_and_follow_the_seed) {
  arena a(options());
  std::set<char*> seen;
  std::vector<char*> by_seed;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    a.begin_call(seed);
    auto* x = take(a, 4096);
    seen.insert(x);
    by_seed.push_back(x);
    a.release(x);
  }
  EXPECT_GT(seen.size(), 45u);
  a.begin_call(7);
  EXPECT_EQ(take(a, 4096), by_seed[7]);
}

TEST_F(arena_test, new_memory_has_one_of_several_kinds_of_poison) {
  arena a(options());
  std::set<uint32_t> first_words;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    a.begin_call(seed);
    auto* x = take(a, 1 << 16);
    std::size_t zeros = 0;
    for (std::size_t i = 0; i < 1 << 16; i += 4) {
      uint32_t word = 0;
      std::memcpy(&word, x + i, 4);
      zeros += word == 0 ? 1 : 0;
      if (i == 0) first_words.insert(word);
    }
    EXPECT_LT(zeros, 4u);
    std::memset(x, 0, 1 << 16);
    a.release(x);
    auto* recycled = take(a, 1 << 16);  // reused within the call: a line of each page is poisoned
    EXPECT_NE(std::memcmp(recycled, recycled + 64, 64), 0);
    a.release(recycled);
  }
  const auto has = [&](uint32_t kind) {
    return std::ranges::any_of(first_words, [&](uint32_t word) { return (word & ~0xffu) == kind; });
  };
  EXPECT_TRUE(has(0x7fc0de00)) << "a NaN";
  EXPECT_TRUE(has(0x7e967600)) << "1e38";
  EXPECT_EQ(first_words.size(), 12u) << "the poison differs from call to call";
}

TEST_F(arena_test, blocks_in_use_keep_their_content_across_calls) {
  arena a(options());
  auto* x = take(a, 10000);
  std::memset(x, 42, 10000);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    a.begin_call(seed);
    a.release(take(a, 100000));
  }
  for (int i = 0; i < 10000; ++i)
    ASSERT_EQ(x[i], 42);
  EXPECT_TRUE(a.check_guards().intact);
}

TEST_F(arena_test, lasting_blocks_can_only_be_read_until_they_are_released) {
  arena a(options());
  take(a, 100);  // so that the next block does not begin with a page by chance
  a.begin_lasting();
  auto *kept = take(a, 5000), *temporary = take(a, 100);
  std::memset(kept, 42, 5000);
  a.release(temporary);
  ASSERT_TRUE(a.end_lasting());
  auto* other = take(a, 5000);
  std::memset(other, 1, 5000);
  for (uint64_t seed = 0; seed < 5; ++seed)
    a.begin_call(seed);
  EXPECT_EQ(kept[4999], 42);
  EXPECT_TRUE(a.check_guards().intact);
  EXPECT_EXIT(kept[4999] = 0, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(kept[5000] = 0, testing::KilledBySignal(SIGSEGV), "");
  a.release(kept);
  a.begin_call(9);
  char* again = take(a, size / 2);
  std::memset(again, 0, size / 2);
}

TEST_F(arena_test, threads_may_allocate_and_release_concurrently) {
  arena a(options());
  const auto work = [&](int id) {
    std::vector<std::pair<char*, std::size_t>> held;
    for (int i = 0; i < 2000; ++i) {
      bool had_room = true;
      const std::size_t bytes = static_cast<std::size_t>((i * 37 + id) % 5000 + 1);
      auto* x = static_cast<char*>(a.allocate(bytes, nullptr, had_room));
      ASSERT_TRUE(had_room);
      std::memset(x, id, bytes);
      held.emplace_back(x, bytes);
      if (held.size() < 8) continue;
      for (const auto& [data, n] : held) {
        ASSERT_EQ(data[0], id);
        ASSERT_EQ(data[n - 1], id);
        a.release(data);
      }
      held.clear();
    }
    for (const auto& [data, n] : held)
      a.release(data);
  };
  std::vector<std::thread> threads;
  for (int id = 1; id <= 3; ++id)
    threads.emplace_back(work, id);
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(a.bytes_in_use(), 0);
  EXPECT_TRUE(a.check_guards().intact);
}

}  // namespace
}  // namespace cudal1
