// Bytes as base64.
#include "config/base/base64.hpp"

#include <string>
#include <string_view>

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

TEST(base64, comes_back_as_it_was_and_what_is_not_base64_is_an_error) {
  std::string bytes;
  for (int i = 0; i < (7 << 20) + 1; ++i)
    bytes += static_cast<char>(i * 31);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}, bytes.size()}) {
    const auto back = from_base64(base64(std::string_view(bytes).substr(0, size)));
    ASSERT_TRUE(back) << size;
    EXPECT_TRUE(*back == bytes.substr(0, size)) << size;
  }
  for (const char* wrong : {"YQ", "YQ=", "Y===", "YQ==YQ==", " YQ==", "YWI\n", "YW-i", "YW%i"})
    EXPECT_FALSE(from_base64(wrong)) << wrong;
}

}  // namespace
}  // namespace cudal1
