// Indices as data: what is left of them, how they are printed, and that what is printed has the value that was meant.
#include "policy/tile/index_expr.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <random>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using values = std::map<std::string, int64_t>;

// The value of a C expression of names, numbers, + - * / %, min, max, parentheses and casts to int.
class evaluator {
 public:
  evaluator(std::string text, const values& of) : text_(std::move(text)), of_(of) {}

  int64_t value() {
    const int64_t v = sum();
    EXPECT_EQ(at_, text_.size()) << text_;
    return v;
  }

 private:
  bool take(const std::string& word) {
    while (at_ < text_.size() && text_[at_] == ' ')
      ++at_;
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  int64_t sum() {
    int64_t v = product();
    for (;;) {
      if (take("+"))
        v += product();
      else if (take("-"))
        v -= product();
      else
        return v;
    }
  }
  int64_t product() {
    int64_t v = single();
    for (;;) {
      if (take("*"))
        v *= single();
      else if (take("/"))
        v /= single();
      else if (take("%"))
        v %= single();
      else
        return v;
    }
  }
  int64_t argument(const std::string& end) {
    const int64_t v = sum();
    EXPECT_TRUE(take(end)) << text_;
    return v;
  }
  int64_t single() {
    if (take("(int)")) return single();
    const bool is_min = take("min(");
    if (is_min || take("max(")) {
      const int64_t a = argument(","), b = argument(")");
      return is_min ? std::min(a, b) : std::max(a, b);
    }
    if (take("(")) {
      const int64_t v = sum();
      EXPECT_TRUE(take(")")) << text_;
      return v;
    }
    if (take("-")) return -single();
    const auto begin = at_;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])))
      ++at_;
    const std::string word = text_.substr(begin, at_ - begin);
    return std::isdigit(static_cast<unsigned char>(word[0])) ? std::stoll(word) : of_.at(word);
  }

  std::string text_;
  const values& of_;
  std::size_t at_ = 0;
};

const index_expr i = index_expr::variable("i", 100), j = index_expr::variable("j", 8);

TEST(index_expr, ranges_make_operations_superfluous) {
  EXPECT_EQ((j % 8).text(), "j");
  EXPECT_EQ((j % 7).text(), "j % 7");
  EXPECT_EQ((j / 8).text(), "0");
  EXPECT_EQ((i / 4 % 25).text(), "i / 4");
  EXPECT_EQ((i / 4 / 5).text(), "i / 20");
  EXPECT_EQ((i / 1 * 1 + 0).text(), "i");
  EXPECT_EQ((i % 1).text(), "0");
  EXPECT_EQ((i * 0 + 3).text(), "3");
  EXPECT_EQ((i * 3 * 4).text(), "i * 12");
  EXPECT_EQ(((i + 3) + (j + -5)).text(), "i + j - 2");
  EXPECT_EQ(index_expr::variable("k", 1).text(), "0") << "there is one value";
  EXPECT_TRUE((i + 3 + -3).text() == "i" && (i * 0).is(0) && !i.is(0));
  EXPECT_EQ((index_expr::unknown("p") % 4).text(), "p % 4");
  EXPECT_EQ((i * 3 + j * -2).most(), 297);
  EXPECT_EQ((i * 3 + j * -2).least(), -14);
  EXPECT_EQ((index_expr::variable("big", int64_t{1} << 62) * 64).most(), std::numeric_limits<int64_t>::max());
}

TEST(index_expr, ranges_tell_which_one_is_smaller) {
  EXPECT_EQ(index_expr::min(i, 99).text(), "i");
  EXPECT_EQ(index_expr::min(i, 98).text(), "min(i, 98)");
  EXPECT_EQ((index_expr::max(i - 3, 0) * 4 + j).text(), "max(i - 3, 0) * 4 + j");
  EXPECT_EQ(index_expr::max(i, 0).text(), "i");
  EXPECT_EQ(index_expr::min(index_expr(50) - i, 8).text(), "min(50 - i, 8)");
  EXPECT_EQ(index_expr::min(index_expr(50) - i, 8).least(), -49);
  EXPECT_EQ(index_expr::max(index_expr(50) - i, 8).most(), 50);
}

TEST(index_expr, operands_are_in_parentheses_where_they_are_not_names) {
  EXPECT_EQ((i / 4 % 5 * 3).text(), "((i / 4) % 5) * 3");
  EXPECT_EQ(((i + 1) * 3).text(), "(i + 1) * 3");
  EXPECT_EQ((i.as("long long") * 3).text(), "(long long)i * 3");
  EXPECT_EQ((i / 4).as("int").text(), "(int)(i / 4)");
  EXPECT_EQ(index_expr(7).as("long long").text(), "7");
  EXPECT_EQ((i + 1).operand(), "(i + 1)");
  EXPECT_EQ(index_expr(-3).operand(), "(-3)");
}

TEST(index_expr, a_split_number_is_put_together_again) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> extents(1 + random() % 4);
    for (auto& e : extents)
      e = static_cast<int64_t>(1 + random() % 6);
    const int64_t width = int64_t{1} << random() % 3;
    extents.back() *= width;
    int64_t vectors = 1;
    std::vector<int64_t> strides(extents.size(), 1);
    for (std::size_t d = extents.size() - 1; d-- > 0;)
      strides[d] = strides[d + 1] * extents[d + 1];
    vectors = strides[0] * extents[0] / width;
    const auto at = split_in_vectors(index_expr::variable("n", vectors), extents, width);
    const index_expr offset = offset_of(at, strides);
    EXPECT_EQ(offset.least(), 0);
    for (int64_t n = 0; n < vectors; ++n) {
      const values of{{"n", n}};
      ASSERT_EQ(evaluator(offset.text(), of).value(), n * width) << offset.text();
      for (std::size_t d = 0; d < at.size(); ++d) {
        const int64_t own = evaluator(at[d].as("int").text(), of).value();
        ASSERT_TRUE(own >= at[d].least() && own <= at[d].most() && own < extents[d]) << at[d].text();
      }
    }
  }
}

TEST(index_expr, random_expressions_have_the_value_that_was_meant) {
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    const values of{{"i", static_cast<int64_t>(random() % 100)}, {"j", static_cast<int64_t>(random() % 8)}};
    index_expr e = random() % 2 == 0 ? i : j;
    int64_t value = of.at(e.text());
    for (int step = 0; step < 6; ++step) {
      const auto n = static_cast<int64_t>(1 + random() % 9);
      switch (random() % 6) {
        case 0:
          e = e + (j * n + n);
          value += of.at("j") * n + n;
          break;
        case 1:
          e = e * n;
          value *= n;
          break;
        case 2:
          e = e / n;
          value /= n;
          break;
        case 3:
          e = index_expr::min(e, j * n + n);
          value = std::min(value, of.at("j") * n + n);
          break;
        case 4:
          e = index_expr::max(e, n);
          value = std::max(value, n);
          break;
        default:
          e = e % n;
          value %= n;
      }
      ASSERT_EQ(evaluator(e.text(), of).value(), value) << e.text();
      ASSERT_TRUE(e.least() <= value && value <= e.most()) << e.text();
    }
  }
}

}  // namespace
}  // namespace cudal1
