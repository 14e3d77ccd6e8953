// What a node uses of its machine: the data folder and the cores.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "actors/clients/data_lock.hpp"
#include "config/base/thread_cores.hpp"

namespace cudal1 {
namespace {

TEST(data_lock, a_second_node_gets_an_error_that_names_the_first) {
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

TEST(cores, a_thread_moves_to_the_given_cores) {
  const auto before = cores_of_this_thread();
  ASSERT_FALSE(before.empty());
  ASSERT_TRUE(move_this_thread({before.front()}));
  EXPECT_EQ(cores_of_this_thread(), std::vector<int>{before.front()});
  ASSERT_TRUE(move_this_thread(before));
  EXPECT_EQ(cores_of_this_thread(), before);
}

}  // namespace
}  // namespace cudal1
