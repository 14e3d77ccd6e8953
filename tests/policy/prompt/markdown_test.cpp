#include "policy/prompt/markdown.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/prompt/plain_json.hpp"

namespace cudal1 {
namespace {

using testing::SizeIs;

std::vector<std::string> headings(const std::string& text) {
  std::vector<std::string> out;
  for (const auto& s : read_markdown(text))
    out.push_back(s.heading);
  return out;
}

TEST(markdown, headings_have_any_level_or_are_bold_or_underlined) {
  EXPECT_THAT(headings("# A\nx\n#### B ##\n**C:**\n__D__\n\nTitle\n=====\ny\n## **E**\n### F:\n"),
              testing::ElementsAre("", "A", "B", "C:", "D", "Title", "E", "F"));
}

TEST(markdown, a_word_in_bold_and_a_preprocessor_line_are_no_headings) {
  EXPECT_THAT(headings("**bold** and more\n#define X\n#5\n"), testing::ElementsAre(""));
}

TEST(markdown, fences_are_of_either_kind_and_of_any_length) {
  const auto s = read_markdown("```cpp\na\n```\n~~~~ CUDA extra\n```\nb\n~~~\n~~~~\n  ```\n  c\n    d\n  ```\n");
  ASSERT_THAT(s, SizeIs(1));
  ASSERT_THAT(s[0].code, SizeIs(3));
  EXPECT_EQ(s[0].code[0].language, "cpp");
  EXPECT_EQ(s[0].code[0].text, "a\n");
  EXPECT_EQ(s[0].code[1].language, "cuda");
  EXPECT_EQ(s[0].code[1].text, "```\nb\n~~~\n");
  EXPECT_EQ(s[0].code[2].text, "c\n  d\n");
}

TEST(markdown, a_heading_inside_of_a_fence_is_code) {
  const auto s = read_markdown("# A\r\n```\r\n# not a heading\r\n---\r\n```\r\n");
  ASSERT_THAT(s, SizeIs(2));
  EXPECT_EQ(s[1].code.front().text, "# not a heading\n---\n");
}

TEST(markdown, a_fence_that_is_not_closed_is_known) {
  EXPECT_FALSE(read_markdown("```\na\n").front().code.front().closed);
}

TEST(thoughts, are_left_out_also_without_their_beginning) {
  bool unfinished = true;
  EXPECT_EQ(without_thoughts("<think>a</think>b<think>c</think>d", unfinished), "bd");
  EXPECT_FALSE(unfinished);
  EXPECT_EQ(without_thoughts("a\n</think>b", unfinished), "b");
  EXPECT_EQ(without_thoughts("<thinking>a</thinking>b", unfinished), "b");
  EXPECT_FALSE(unfinished);
  EXPECT_EQ(without_thoughts("b<think>a", unfinished), "b");
  EXPECT_TRUE(unfinished);
}

TEST(plain_json, loses_comments_and_commas_before_a_closing_bracket) {
  EXPECT_EQ(plain_json("{ // a\n \"x\": [1, 2, /* b\n */ ], \"y\": \"//, ]\", }"),
            "{ \n \"x\": [1, 2 \n ], \"y\": \"//, ]\" }");
}

TEST(plain_json, leaves_strict_text_as_it_is) {
  const std::string text = R"({"a": "x\", ]", "b": [1, {"c": "/* */"}]})";
  EXPECT_EQ(plain_json(text), text);
}

TEST(object_length, ends_at_the_matching_brace) {
  EXPECT_EQ(object_length("{\"a\": \"}\"} rest"), 10u);
  EXPECT_EQ(object_length(" { /* } */ } x"), 12u);
  EXPECT_EQ(object_length("{ open"), 0u);
  EXPECT_EQ(object_length("text"), 0u);
}

}  // namespace
}  // namespace cudal1
