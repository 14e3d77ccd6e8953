#include "config/base/lowest_tenth.hpp"

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

TEST(lowest_tenth, is_the_lower_decile_or_the_minimum_of_fewer_than_ten) {
  EXPECT_EQ(lowest_tenth({}), 0);
  EXPECT_EQ(lowest_tenth({7}), 7);
  EXPECT_EQ(lowest_tenth({9, 8, 7, 9}), 7);
  EXPECT_EQ(lowest_tenth({9, 8, 7, 9, 9, 9, 9, 9, 9, 9}), 8);
}

}  // namespace
}  // namespace cudal1
