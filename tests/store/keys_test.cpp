#include "store/keys.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace cudal1::keys {
namespace {

TEST(store_keys, scores_sort_downwards_and_read_back) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> falling = {inf, 1e300, 120, 1.0000000000000002, 1, 0.5, 5e-324, 0, -1, -inf};
  for (std::size_t i = 0; i < falling.size(); ++i) {
    const std::string key = writer().descending(falling[i]).take();
    EXPECT_EQ(reader(key).descending(), falling[i]);
    if (i > 0) {
      EXPECT_LT(writer().descending(falling[i - 1]).take(), key) << falling[i];
    }
    EXPECT_LT(key, writer().descending(std::nan("")).take());
  }
}

TEST(store_keys, texts_with_any_byte_keep_their_order) {
  std::mt19937 random(7);
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    std::string s(random() % 5, ' ');
    for (char& c : s)
      c = "\0\1a\xff"[random() % 4];
    texts.push_back(s);
  }
  std::sort(texts.begin(), texts.end());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string key = writer().text(texts[i]).number(random()).take();
    EXPECT_EQ(reader(key).text(), texts[i]);
    if (i > 0 && texts[i - 1] != texts[i]) {
      EXPECT_LT(writer().text(texts[i - 1]).number(random()).take(), key);
    }
  }
}

TEST(store_keys, a_verdict_key_gives_back_what_it_was_made_of) {
  const verdict_key k{"variant", "e12", std::string("ta\0sk", 5), 3};
  const auto back = parse_verdict(verdict(k));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->variant, k.variant);
  EXPECT_EQ(back->experiment, k.experiment);
  EXPECT_EQ(back->task, k.task);
  EXPECT_EQ(back->attempt, 3);
  EXPECT_FALSE(parse_verdict("nonsense"));
  EXPECT_FALSE(parse_verdict(verdict(k) + "x"));
  const auto use = parse_variant_use(variant_use("variant", k.task, "e12"));
  ASSERT_TRUE(use);
  EXPECT_EQ(use->task, k.task);
  EXPECT_EQ(use->experiment, "e12");
  EXPECT_FALSE(parse_variant_use(variant("variant")));
}

TEST(store_keys, the_key_after_a_prefix_ends_its_range) {
  EXPECT_EQ(after_prefix("ab"), "ac");
  EXPECT_EQ(after_prefix("a\xff"), "b");
  EXPECT_EQ(after_prefix("\xff\xff"), "");
}

TEST(store_keys, experiment_ids_are_e_and_a_number) {
  EXPECT_EQ(experiment_number("e12"), 12u);
  for (const char* bad : {"", "e", "12", "e0", "e01", "e1x", "e-1"})
    EXPECT_FALSE(experiment_number(bad)) << bad;
}

}  // namespace
}  // namespace cudal1::keys
