// Automata of bytes, and masks of tokens by them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/split_mix.hpp"
#include "policy/model/constraint/byte_automaton.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;
using pattern = byte_pattern;

byte_automaton made(const pattern& p) {
  auto out = byte_automaton::make(p);
  if (!out) throw std::runtime_error(out.error().message);
  return std::move(*out);
}

TEST(byte_automaton, reads_what_its_pattern_says_and_nothing_else) {
  const auto digits = pattern::any_of("0123456789");
  const auto number = pattern::sequence({pattern::any_of("123456789"), pattern::times(digits, 0, 2)});
  const auto list = made(
      pattern::sequence({pattern::text("["), number, pattern::repeated(pattern::sequence({pattern::text(","), number})),
                         pattern::one_of({"]", "];", "]."})}));
  for (const char* text : {"[1]", "[123]", "[1,20,300];", "[9,9]."})
    EXPECT_TRUE(list.accepts(text)) << text;
  for (const char* text : {"", "[", "[]", "[0]", "[1234]", "[1,]", "[1];;", "[1]x", "1"})
    EXPECT_FALSE(list.accepts(text)) << text;
  EXPECT_EQ(list.distance(list.begin()), 3);
  EXPECT_EQ(list.distance(list.after(list.begin(), "[1,")), 2);
  EXPECT_EQ(list.after(list.begin(), "[01"), byte_automaton::none);
}

TEST(byte_automaton, ends_free_text_at_its_end_and_refuses_what_is_forbidden) {
  const auto text = made(pattern::sequence({pattern::text_until("\n## B\n", {"```", "<think"}), pattern::text("x")}));
  for (const char* t :
       {"\n## B\nx", "words\n## A\n\n## B\nx", "``\n\n## B\nx", "a <thin` ``\n## B\nx", "\xc3\xa9\n## B\nx"})
    EXPECT_TRUE(text.accepts(t)) << t;
  for (const char* t :
       {"words", "a```\n## B\nx", "<think>\n## B\nx", "\n## B\n\n## B\nx", "\x01\n## B\nx", "\r\n## B\nx"})
    EXPECT_FALSE(text.accepts(t)) << t;
}

TEST(byte_automaton, has_no_dead_ends) {
  // "ab" leads nowhere: what follows it has no text.
  const auto nothing = pattern::choice({});
  const auto a = made(pattern::choice({pattern::sequence({pattern::text("ab"), nothing}), pattern::text("ac")}));
  EXPECT_EQ(a.after(a.begin(), "ab"), byte_automaton::none);
  EXPECT_TRUE(a.accepts("ac"));
  EXPECT_EQ(byte_automaton::make(nothing).error().code, errc::invalid_argument);
}

TEST(byte_automaton, knows_in_which_part_it_is) {
  const auto a = made(
      pattern::sequence({pattern::text("a"), pattern::within(pattern::text_until(".", {}), 0.25), pattern::text("b")}));
  EXPECT_EQ(a.share(a.begin()), 1);
  EXPECT_EQ(a.share(a.after(a.begin(), "ax")), 0.25);
  EXPECT_EQ(a.share(a.after(a.begin(), "ax.")), 1);
}

TEST(byte_automaton, refuses_to_grow_without_limit) {
  // The third last of many bytes: as many states as there are pairs of what was seen.
  std::vector<pattern> parts{pattern::repeated(pattern::any_of("ab")), pattern::text("a")};
  for (int i = 0; i < 12; ++i)
    parts.push_back(pattern::any_of("ab"));
  const auto large = byte_automaton::make(pattern::sequence(parts), 1000);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, errc::unsupported);
  EXPECT_THAT(large.error().message, HasSubstr("more than 1000 states"));
}

// Every way on can end within its distance.
TEST(byte_automaton, distances_are_those_of_the_shortest_ways) {
  const auto a = made(pattern::sequence({pattern::repeated(pattern::any_of("xy")), pattern::text_until("end", {"z"}),
                                         pattern::choice({pattern::text("!"), pattern::text("??")})}));
  uint64_t random = 7;
  for (int walk = 0; walk < 200; ++walk) {
    auto at = a.begin();
    for (int i = 0; i < 20; ++i) {
      random = split_mix(random + split_mix_step);
      const auto next = a.next(at, static_cast<unsigned char>("xyzend!?"[random % 8]));
      if (next != byte_automaton::none) at = next;
    }
    while (!a.is_end(at)) {
      byte_automaton::state best = byte_automaton::none;
      for (int byte = 0; byte < 256; ++byte)
        if (const auto next = a.next(at, static_cast<unsigned char>(byte));
            next != byte_automaton::none && a.distance(next) == a.distance(at) - 1)
          best = next;
      ASSERT_NE(best, byte_automaton::none);
      at = best;
    }
  }
}

}  // namespace
}  // namespace cudal1
