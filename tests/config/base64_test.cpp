// Bytes as base64.
#include "config/base/base64.hpp"

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

TEST(base64, pads_to_groups_of_four) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("a"), "YQ==");
  EXPECT_EQ(base64("ab"), "YWI=");
  EXPECT_EQ(base64("abc\xff"), "YWJj/w==");
}

TEST(base64, is_one_line_at_any_length) {
  const std::size_t bytes = (7 << 20) + 1;
  const auto text = base64(std::string(bytes, 'a'));
  ASSERT_EQ(text.size(), (bytes + 2) / 3 * 4);
  for (std::size_t i = 0; i + 4 < text.size(); i += 4)
    ASSERT_EQ(text.substr(i, 4), "YWFh") << i;
  EXPECT_EQ(text.substr(text.size() - 4), bytes % 3 == 1 ? "YQ==" : "YWE=");
}

}  // namespace
}  // namespace cudal1
