// The scanner that all readers of sources share.
#include "sandbox/program/scanner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts(const std::vector<token>& tokens) {
  std::vector<std::string> found;
  for (const auto& t : tokens)
    found.emplace_back(t.text);
  return found;
}

std::string problem(std::string_view source) {
  const auto tokens = tokens_of(source);
  return tokens ? "" : tokens.error().message;
}

TEST(scan, distinguishes_words_numbers_literals_and_operators) {
  const std::string_view source = "a1 = 1'000.5e-3f+.5 <<<x->y>>> L\"a\\\"/*\" '\\'' <= <<= ::b/**/c//d";
  const auto tokens = scan(source, directive_form::line);
  EXPECT_THAT(texts(tokens), ElementsAre("a1", "=", "1'000.5e-3f", "+", ".5", "<<<", "x", "->", "y", ">", ">", ">", "L",
                                         "\"a\\\"/*\"", "'\\''", "<=", "<<", "=", "::", "b", "/**/", "c", "//d"));
  EXPECT_EQ(tokens[0].kind, token_kind::identifier);
  EXPECT_EQ(tokens[2].kind, token_kind::number);
  EXPECT_EQ(tokens[13].kind, token_kind::text);
  EXPECT_EQ(tokens[20].kind, token_kind::comment);
  for (const auto& t : tokens)
    EXPECT_EQ(source.substr(t.begin, t.end - t.begin), t.text);
}

TEST(scan, reads_a_preprocessor_line_as_one_token_or_as_words) {
  const std::string_view source = "/* x\n */ #define A it's // c\nb # c\n";
  EXPECT_THAT(texts(scan(source, directive_form::line)),
              ElementsAre("/* x\n */", "#define A it's // c", "b", "#", "c"));
  const auto words = scan("int a;\n # /* x\n */ define A\nb", directive_form::words);
  EXPECT_THAT(texts(words), ElementsAre("int", "a", ";", "#", "/* x\n */", "define", "A", "b"));
  std::vector<std::string> first;
  for (const auto& t : words)
    if (t.begins_line) first.emplace_back(t.text);
  EXPECT_THAT(first, ElementsAre("int", "#", "b")) << "a comment does not end a line";
}

TEST(scan, ends_with_what_is_not_closed) {
  for (const std::string_view source : {"a /* b", "a /*/"})
    EXPECT_EQ(scan(source, directive_form::line).back().kind, token_kind::unclosed_comment) << source;
  for (const std::string_view source : {"a \"b\nc", "a 'b", "a \"\\", "a \"b\\\""})
    EXPECT_EQ(scan(source, directive_form::line).back().kind, token_kind::unclosed_text) << source;
}

TEST(scan, counts_lines_and_follows_line_markers) {
  const auto tokens = scan("a\n/*\n*/ b\n# 40 \"program.cu\"\nc\n\nd", directive_form::line);
  std::vector<int> lines;
  for (const auto& t : tokens)
    if (t.is_name()) lines.push_back(t.line);
  EXPECT_THAT(lines, ElementsAre(1, 3, 40, 42));
}

TEST(join_lines, keeps_line_numbers_and_records_where_it_joined) {
  const auto joined = join_lines("\\\na\\\nb c\\ \t\nd\ne");
  EXPECT_EQ(joined.text, "ab cd\n\n\n\ne");
  EXPECT_EQ(joined.line_of(joined.text.find('a')), 2u);
  EXPECT_EQ(joined.line_of(joined.text.find('b')), 3u);
  EXPECT_EQ(joined.line_of(joined.text.find('d')), 4u);
  EXPECT_EQ(joined.line_of(joined.text.find('e')), 5u);
}

TEST(tokens_of, omits_comments_and_line_markers) {
  const auto tokens = tokens_of("a // x\n# 3 \"f\"\n#pragma unroll\n/* y */ b");
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_THAT(texts(*tokens), ElementsAre("a", "#pragma unroll", "b"));
}

TEST(tokens_of, rejects_what_can_hide_words) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a;\nR\"(x)\"", "line 2 of the source: raw strings"},
      {"u8R\"(x)\"", "raw strings"},
      {"a <% b", "the digraph \"<%\""},
      {"a <::b> c", "the digraph \"<:\""},
      {"%:define x", "the digraph \"%:\""},
      {"\\u0061", "a backslash outside strings"},
      {"int \xc3\xa4;", "a character beyond ASCII"},
      {"int a\x01;", "a control character"},
      {"a $ b", "the character '$' has no meaning"},
      {"a\n/* b", "line 2 of the source: a comment never ends"},
      {"\"a\n\"", "a string or character literal never ends"},
      {"#define A /* x\n*/", "a comment begins on a preprocessor line and ends on another"},
  };
  for (const auto& [source, wanted] : cases)
    EXPECT_THAT(problem(source), HasSubstr(wanted)) << source;
  EXPECT_EQ(problem("// \xc3\xa4 $ \\\nauto s = \"\xc3\xa4 $ %:\", t = u8\"R\"; f<int ::g> ();"), "");
}

TEST(after_matching_bracket, counts_brackets_of_one_kind) {
  const auto tokens = scan("f(a[(1)], (b)) {", directive_form::line);
  EXPECT_EQ(after_matching_bracket(tokens, 1), tokens.size() - 1);
  EXPECT_EQ(after_matching_bracket(tokens, 3), 8u);
  EXPECT_EQ(after_matching_bracket(tokens, tokens.size() - 1), tokens.size() + 1) << "not closed";
}

}  // namespace
}  // namespace cudal1
