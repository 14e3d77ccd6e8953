// Validation of UTF-8, and the replacement of invalid bytes.
#include "config/base/utf8.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

// `point` in `bytes` bytes, whether that is its shortest form or not.
std::string encoded(uint32_t point, int bytes) {
  if (bytes == 1) return {static_cast<char>(point)};
  std::string text(1, static_cast<char>((0xf00 >> bytes & 0xff) | point >> 6 * (bytes - 1)));
  for (int i = bytes - 2; i >= 0; --i)
    text += static_cast<char>(0x80 | (point >> 6 * i & 0x3f));
  return text;
}

int shortest(uint32_t point) {
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

TEST(utf8, has_every_code_point_in_its_shortest_form_only_and_no_surrogate) {
  for (uint32_t point = 0; point < 0x200000; ++point) {
    const bool legal = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
    for (int bytes = shortest(point); bytes <= 4; ++bytes)
      ASSERT_EQ(is_valid_utf8(encoded(point, bytes)), legal && bytes == shortest(point)) << point << " in " << bytes;
  }
}

TEST(utf8, has_no_stray_bytes_and_ends_with_a_complete_sequence) {
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(
      is_valid_utf8("Gr\xc3\xb6\xc3\x9f"
                    "e \xf0\x9f\x8d\xb5"));
  for (const std::string_view text : {"\xff", "\x80", "a\xe2\x82", "\xe2\x82z", "\xf8\x88\x80\x80\x80", "\xc3"})
    EXPECT_FALSE(is_valid_utf8(text)) << text;
}

// Most bytes are read eight at a time.
TEST(utf8, has_stray_bytes_found_at_every_place) {
  for (std::size_t size = 1; size < 40; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      std::string text(size, 'a');
      EXPECT_TRUE(is_valid_utf8(text));
      text[at] = '\x80';
      EXPECT_FALSE(is_valid_utf8(text)) << at << " of " << size;
      std::string replaced(size, 'a');
      replaced.replace(at, 1, "\xef\xbf\xbd");
      EXPECT_EQ(replace_invalid_utf8(text), replaced);
    }
  }
}

TEST(utf8, has_each_byte_outside_a_sequence_replaced) {
  const std::string sign = "\xef\xbf\xbd";
  EXPECT_EQ(replace_invalid_utf8(""), "");
  EXPECT_EQ(replace_invalid_utf8("a\xc3\xb6"), "a\xc3\xb6");
  EXPECT_EQ(replace_invalid_utf8("\xff"), sign);
  EXPECT_EQ(replace_invalid_utf8("a\xe2\x82z\xc3\xb6\x80"), "a" + sign + sign + "z\xc3\xb6" + sign);
}

}  // namespace
}  // namespace cudal1
