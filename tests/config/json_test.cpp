#include "config/base/json.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"

namespace cudal1 {
namespace {

std::string problem_of(std::string_view text) {
  const auto parsed = json::parse(text);
  return parsed ? "" : parsed.error().message;
}

TEST(json, keeps_every_double_exactly) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const double d = std::bit_cast<double>(random());
    if (!std::isfinite(d)) continue;
    const auto back = json::parse(json(d).text());
    ASSERT_TRUE(back) << json(d).text() << ": " << back.error().message;
    ASSERT_TRUE(back->is_double()) << json(d).text();
    ASSERT_EQ(std::bit_cast<uint64_t>(back->as_double()), std::bit_cast<uint64_t>(d)) << json(d).text();
  }
}

TEST(json, distinguishes_integers_from_reals) {
  EXPECT_TRUE(json::parse("1")->is_int());
  EXPECT_TRUE(json::parse("1.0")->is_double());
  EXPECT_TRUE(json::parse("1e0")->is_double());
  EXPECT_EQ(json::parse("[1,1.0,-0.0]")->text(), "[1,1.0,-0.0]");
  EXPECT_EQ(json::parse("-9223372036854775808")->as_int(), INT64_MIN);
}

TEST(json, says_what_is_wrong_and_where) {
  EXPECT_THAT(problem_of("{\"a\":1,\"b\":2,\"a\":3}"), testing::HasSubstr("\"a\" appears twice"));
  EXPECT_THAT(problem_of("9223372036854775808"), testing::HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(problem_of("[1e999]"), testing::HasSubstr("double"));
  EXPECT_THAT(problem_of("{}\n\n x"), testing::HasSubstr("after the end"));
  EXPECT_THAT(problem_of("{\n  \"a\": tru\n}"), testing::HasSubstr("line 2"));
  EXPECT_NE(problem_of(""), "");
  EXPECT_NE(problem_of(std::string(1000, '[')), "");
}

TEST(json, prints_what_it_read) {
  const std::string text = R"({"z":[1,2.5,"a\"\\\n\u0001",true,null],"a":{"é":[]}})";
  EXPECT_EQ(json::parse(text)->text(), text);
  EXPECT_EQ(json::parse(json::parse(text)->text(2))->text(), text);
}

BOOST_DEFINE_ENUM_CLASS(colour, red, blue_)
struct inner {
  double x = 1;
  std::optional<int> maybe;
};
BOOST_DESCRIBE_STRUCT(inner, (), (x, maybe))
struct outer {
  colour c = colour::blue_;
  std::vector<inner> items;
  std::map<std::string, int8_t> counts;
};
BOOST_DESCRIBE_STRUCT(outer, (), (c, items, counts))

TEST(describe, records_survive_a_round_trip) {
  outer o{colour::blue_, {{0.1, 3}, {std::nan(""), {}}}, {{"k", -5}}};
  const std::string text = to_text(o);
  EXPECT_EQ(text, R"({"c":"blue","items":[{"x":0.1,"maybe":3},{"x":"nan","maybe":null}],"counts":{"k":-5}})");
  const auto back = from_text<outer>(text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_text(*back), text);
}

struct everything {
  bool yes = true;
  int64_t number = -7;
  uint64_t seed = 0xffffffffffffffff;
  double half = 0.5, none = std::numeric_limits<double>::quiet_NaN(), low = -std::numeric_limits<double>::infinity();
  std::string text =
      "a \"quote\", \\, tab\t, line\n, bell\a, delete\x7f, Gr\xc3\xb6\xc3\x9f"
      "e";
  std::optional<inner> absent, present = inner{};
  std::vector<inner> list{{}, {}};
  std::vector<std::string> empty;
  std::array<int, 3> fixed{1, 2, 3};
  std::map<std::string, double> table{{"", 1.0}, {"key\n", 2.5e300}};
  json document = json::make_object({{"k", json::make_array({json(1), json(2.0), json()})}});
};
BOOST_DESCRIBE_STRUCT(everything, (),
                      (yes, number, seed, half, none, low, text, absent, present, list, empty, fixed, table, document))

TEST(describe, text_is_that_of_the_document) {
  const everything all;
  EXPECT_EQ(to_text(all), to_json(all).text());
  EXPECT_EQ(to_text(all.list), to_json(all.list).text());
  EXPECT_EQ(to_text(all.text), to_json(all.text).text());
}

TEST(describe, a_wrong_member_is_named) {
  EXPECT_THAT(from_text<outer>(R"({"items":[{"x":1},{"x":"far"}]})").error().message, testing::HasSubstr("items[1].x"));
  EXPECT_THAT(from_text<outer>(R"({"counts":{"k":300}})").error().message, testing::HasSubstr("counts.k"));
  EXPECT_THAT(from_text<outer>(R"({"c":"green"})").error().message, testing::HasSubstr("green"));
  EXPECT_TRUE(from_text<outer>(R"({"later":1})"));
}

TEST(hash, is_sha256) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_NE(fingerprint_of("abc", 3, 1), fingerprint_of("abc", 3, 2));
}

}  // namespace
}  // namespace cudal1
