// What a node has of its machine: the data folder and the cores.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "actors/cores.hpp"
#include "actors/data_lock.hpp"

namespace cudal1 {
namespace {

TEST(data_lock, a_second_node_is_told_who_has_the_folder) {
  std::string folder = testing::TempDir() + "cudal1-lock-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  {
    const auto first = data_lock::take(folder + "/new");
    ASSERT_TRUE(first) << first.error().message;
    const auto second = data_lock::take(folder + "/new");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, errc::already_exists);
    EXPECT_EQ(second.error().message,
              "another cudal1-node runs on " + folder + "/new (pid " + std::to_string(::getpid()) + ")");
  }
  EXPECT_TRUE(data_lock::take(folder + "/new")) << "the lock ends with its holder";
  std::filesystem::remove_all(folder);
}

TEST(cores, the_last_ones_are_kept_for_timing) {
  const auto l = lay_out_cores({0, 1, 2, 3}, 2, -1);
  EXPECT_EQ(l.timing, (std::vector<int>{2, 3}));
  EXPECT_EQ(l.others, (std::vector<int>{0, 1}));
}

TEST(cores, a_chosen_timing_core_is_kept) {
  EXPECT_EQ(lay_out_cores({0, 1, 2}, 1, 0).others, (std::vector<int>{1, 2}));
}

TEST(cores, with_one_core_nothing_can_be_kept_apart) {
  const auto l = lay_out_cores({5}, 1, -1);
  EXPECT_TRUE(l.timing.empty());
  EXPECT_EQ(l.others, std::vector<int>{5});
}

TEST(cores, a_thread_moves_where_it_is_told) {
  const auto before = cores_of_this_thread();
  ASSERT_FALSE(before.empty());
  ASSERT_TRUE(move_this_thread({before.front()}));
  EXPECT_EQ(cores_of_this_thread(), std::vector<int>{before.front()});
  ASSERT_TRUE(move_this_thread(before));
  EXPECT_EQ(cores_of_this_thread(), before);
}

}  // namespace
}  // namespace cudal1
