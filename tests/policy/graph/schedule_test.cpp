#include "policy/graph/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using ::testing::HasSubstr;

TEST(Schedule, ReadsWhatItPrints) {
  const std::string text = "drop(step=2); fuse(steps=0..1+5); block(group=0, threads=256); in_place(group=0)";
  const auto read = parse_schedule(text);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->moves.size(), 4u);
  EXPECT_EQ(read->moves[2].parameters[1].second, "256");
  EXPECT_EQ(print_schedule(*read), text);
  EXPECT_EQ(parse_schedule("  "), schedule{});
}

TEST(Schedule, MalformedTextIsAnErrorWithTheMovesNumber) {
  for (const char* text :
       {"fuse", "fuse(steps)", "fuse(steps=1", "; fuse(steps=1)", "f u(steps=1)", "fuse(steps=1,)"}) {
    const auto read = parse_schedule(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message, HasSubstr("move 0")) << text;
  }
  EXPECT_THAT(parse_schedule("fuse(steps=1); ; fuse(steps=2)").error().message, HasSubstr("move 1"));
}

}  // namespace
}  // namespace cudal1
