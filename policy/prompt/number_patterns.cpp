#include "policy/prompt/number_patterns.hpp"

#include <string_view>

namespace cudal1 {

namespace {

using pattern = byte_pattern;

constexpr std::string_view digits = "0123456789", digits_but_zero = "123456789";

}  // namespace

byte_pattern positive_number() {
  return pattern::sequence({pattern::any_of(digits_but_zero), pattern::times(pattern::any_of(digits), 0, 8)});
}

byte_pattern integer_number() {
  return pattern::choice({pattern::text("0"), pattern::sequence({pattern::one_of({"", "-"}), positive_number()})});
}

byte_pattern real_number() {
  const auto fraction = pattern::sequence({pattern::text("."), pattern::times(pattern::any_of(digits), 1, 10)});
  const auto exponent =
      pattern::sequence({pattern::text("e"), pattern::one_of({"", "-"}),
                         pattern::choice({pattern::any_of(digits_but_zero),
                                          pattern::sequence({pattern::any_of("12"), pattern::any_of(digits)})})});
  return pattern::sequence({integer_number(), pattern::choice({pattern::text(""), fraction}),
                            pattern::choice({pattern::text(""), exponent})});
}

byte_pattern short_extent() {
  const auto digit = pattern::any_of(digits);
  return pattern::choice(
      {pattern::sequence({pattern::any_of(digits_but_zero), pattern::times(digit, 0, 3)}),
       pattern::sequence({pattern::any_of("12345"), pattern::times(digit, 4, 4)}),
       pattern::sequence({pattern::text("6"), pattern::any_of("01234"), pattern::times(digit, 3, 3)})});
}

byte_pattern shared_bytes() {
  const auto digit = pattern::any_of(digits);
  return pattern::choice(
      {pattern::text("0"), pattern::sequence({pattern::any_of(digits_but_zero), pattern::times(digit, 0, 3)}),
       pattern::sequence({pattern::any_of("123"), pattern::times(digit, 4, 4)}),
       pattern::sequence({pattern::text("4"), pattern::any_of("012345678"), pattern::times(digit, 3, 3)})});
}

byte_pattern shared_bytes_of_tiles() {
  const auto digit = pattern::any_of(digits);
  constexpr int most_digits = 5;
  return pattern::choice(
      {pattern::text("0"),
       pattern::sequence({pattern::any_of(digits_but_zero), pattern::times(digit, 0, most_digits - 1)}),
       pattern::sequence({pattern::text("1"), pattern::times(digit, most_digits, most_digits)}),
       pattern::sequence({pattern::text("2"), pattern::any_of("012"), pattern::times(digit, 4, 4)})});
}

std::vector<std::pair<int, int>> block_shapes() {
  std::vector<std::pair<int, int>> out;
  for (const int x : {1,   2,   4,   8,   16,  32,  64,  96,  128, 160, 192, 224, 256, 288, 320,
                      352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 832, 896, 960, 1024})
    out.emplace_back(x, 1);
  for (int x = 1; x <= 512; x *= 2)
    for (int y = 2; y <= 64 && x * y <= 1024; y *= 2)
      out.emplace_back(x, y);
  return out;
}

}  // namespace cudal1
