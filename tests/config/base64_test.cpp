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
  EXPECT_EQ(base64("abc"), "YWJj");
  EXPECT_EQ(base64("abc\xff"), "YWJj/w==");
  EXPECT_EQ(base64(std::string_view("\0\0\0\0", 4)), "AAAAAA==");
}

TEST(base64, is_one_line_at_any_length) {
  const std::size_t bytes = (7 << 20) + 1;
  const auto text = base64(std::string(bytes, 'a'));
  ASSERT_EQ(text.size(), (bytes + 2) / 3 * 4);
  for (std::size_t i = 0; i + 4 < text.size(); i += 4)
    ASSERT_EQ(text.substr(i, 4), "YWFh") << i;
  EXPECT_EQ(text.substr(text.size() - 4), bytes % 3 == 1 ? "YQ==" : "YWE=");
}

TEST(base64, comes_back_as_it_was) {
  std::string bytes;
  for (int i = 0; i < (7 << 20) + 1; ++i)
    bytes += static_cast<char>(i * 31);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}, bytes.size()}) {
    const auto back = from_base64(base64(std::string_view(bytes).substr(0, size)));
    ASSERT_TRUE(back) << size;
    EXPECT_TRUE(*back == bytes.substr(0, size)) << size;
  }
}

void expect_refused(const std::string& text) {
  const auto bytes = from_base64(text);
  ASSERT_FALSE(bytes) << text;
  EXPECT_EQ(bytes.error().code, errc::parse_error) << text;
}

TEST(base64, padding_that_is_missing_or_elsewhere_than_at_the_end_is_an_error) {
  for (const char* wrong : {"Y", "YQ", "YWI", "YQ=", "Y===", "====", "=", "==", "=WJj", "Y=Jj", "YQ=j",
                            "YQ==YQ==", "YWI=YWJj", "YWJj=", "YWJj==", "YWJj===", "YWJj===="})
    expect_refused(wrong);
}

TEST(base64, letters_that_are_none_of_its_own_are_an_error_wherever_they_are) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int c = 0; c < 256; ++c)
    for (std::size_t place = 0; place < 8; ++place) {
      std::string text = "YWJjYWJj";
      text[place] = static_cast<char>(c);
      const bool is_padding = c == '=' && place == 7;
      EXPECT_EQ(from_base64(text).has_value(), is_padding || letters.find(text[place]) != std::string::npos)
          << c << " at " << place;
    }
  for (const char* wrong : {"----", "YWJj----", "YWJj--==", "YWJjYW==----", "YW_j", "YW-j"})
    expect_refused(wrong);
}

TEST(base64, white_space_around_or_within_is_an_error) {
  for (const char* wrong : {" YQ==", "YQ== ", "\nYQ=", "YWI\n", "YW I", "YWJj\r\n\r\n", "    YWJj", "YWJj\t\t\t\t",
                            "YWJj\nYWJ", "    ", "\n"})
    expect_refused(wrong);
}

}  // namespace
}  // namespace cudal1
