#include "tools/cli/text_diff.hpp"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/cli/format.hpp"

namespace cudal1::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string joined(const std::vector<diff_line>& all, line_change without) {
  std::string text;
  for (const auto& line : all)
    if (line.change != without) text += line.text + "\n";
  return text;
}

TEST(text_diff, shows_changes_with_their_surroundings_and_line_numbers) {
  EXPECT_THAT(unified_diff("a\nb\nc\nd\ne\nf\n", "a\nb\nC\nd\ne\nf\n", 1),
              ElementsAre("@@ -2,3 +2,3 @@", " b", "-c", "+C", " d"));
  EXPECT_THAT(unified_diff("a\nb\n", "a\nb\n"), IsEmpty());
  EXPECT_THAT(unified_diff("", "x\n"), ElementsAre("@@ -1,0 +1,1 @@", "+x"));
  EXPECT_THAT(unified_diff("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n4\n5\n6\n7\n8\n9\n", 0),
              ElementsAre("@@ -3,1 +3,0 @@", "-3", "@@ -9,0 +8,1 @@", "+9"));
}

TEST(text_diff, gives_both_texts_back_with_the_fewest_changes) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto text = [&] {
      std::string lines;
      for (auto n = random() % 12; n > 0; --n)
        lines += std::string(1, static_cast<char>('a' + random() % 4)) + "\n";
      return lines;
    };
    const auto a = text(), b = text();
    const auto all = diff_lines(a, b);
    EXPECT_EQ(joined(all, line_change::added), a);
    EXPECT_EQ(joined(all, line_change::removed), b);
    // The longest common subsequence, by its table.
    const auto la = split_lines(a), lb = split_lines(b);
    std::vector<std::vector<std::size_t>> longest(la.size() + 1, std::vector<std::size_t>(lb.size() + 1, 0));
    for (std::size_t i = 0; i < la.size(); ++i)
      for (std::size_t j = 0; j < lb.size(); ++j)
        longest[i + 1][j + 1] = la[i] == lb[j] ? longest[i][j] + 1 : std::max(longest[i][j + 1], longest[i + 1][j]);
    const auto kept = std::ranges::count(all, line_change::kept, &diff_line::change);
    EXPECT_EQ(static_cast<std::size_t>(kept), longest.back().back()) << a << "---\n" << b;
  }
}

TEST(text_diff, replaces_texts_that_have_nothing_in_common) {
  std::string a, b;
  for (int i = 0; i < 5000; ++i) {
    a += "a" + std::to_string(i) + "\n";
    b += "b" + std::to_string(i) + "\n";
  }
  const auto all = diff_lines("same\n" + a, "same\n" + b);
  EXPECT_EQ(all.size(), 10001U);
  EXPECT_EQ(joined(all, line_change::removed), "same\n" + b);
}

}  // namespace
}  // namespace cudal1::cli
