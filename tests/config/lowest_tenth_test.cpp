#include "config/base/lowest_tenth.hpp"

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

TEST(lowest_tenth, is_what_was_kept_and_no_luck) {
  EXPECT_EQ(lowest_tenth({}), 0);
  EXPECT_EQ(lowest_tenth({7}), 7);
  EXPECT_EQ(lowest_tenth({9, 8, 7, 9}), 7);
  EXPECT_EQ(lowest_tenth({9, 8, 7, 9, 9, 9, 9, 9, 9, 9}), 8);
}

}  // namespace
}  // namespace cudal1
