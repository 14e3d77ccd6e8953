#include "policy/prompt/source_pattern.hpp"

#include <algorithm>
#include <cctype>

namespace cudal1 {

namespace {

using pattern = byte_pattern;

// Whatever begins like one of these goes on as one of them.
void allow_only(const std::vector<std::string>& wholes, std::vector<std::string>& forbidden) {
  for (const auto& whole : wholes)
    for (std::size_t size = 1; size < whole.size(); ++size)
      for (int byte = 0; byte < 0x80; ++byte) {
        const std::string begun = whole.substr(0, size) + static_cast<char>(byte);
        if (std::ranges::none_of(wholes, [&](const auto& w) { return w.starts_with(begun); }))
          forbidden.push_back(begun);
      }
}

std::string printable() {
  std::string all;
  for (char c = ' '; c < 0x7f; ++c)
    all += c;
  return all;
}

}  // namespace

const std::vector<std::string>& not_in_words() {
  static const std::vector<std::string> all = {"```", "~~~", "<think", "</think"};
  return all;
}

const std::vector<std::string>& not_in_source() {
  static const auto all = [] {
    auto words = not_in_words();
    words.insert(words.end(), {"\"", "'", "\\", "/*", "??", "%:", "__has_", "_Pragma", "__pragma", "#define _",
                               "#define  ", "@", "$", "<%", "%>", "<:", ":>"});
    for (int byte = 0x80; byte < 0x100; ++byte)
      words.emplace_back(1, static_cast<char>(byte));
    allow_only({"#define ", "#pragma unroll"}, words);
    // Of back quotes only the fence that ends it, on a line of its own; a pragma is a whole word.
    for (const char c : std::string("\t\n") + printable()) {
      if (c != '`' && c != '\n') words.push_back(std::string(1, c) + "`");
      if (c != '`') words.push_back("`" + std::string(1, c));
      if (c == '_' || std::isalnum(static_cast<unsigned char>(c)))
        words.push_back("#pragma unroll" + std::string(1, c));
    }
    return words;
  }();
  return all;
}

const std::vector<std::vector<std::string>>& kernels_of_answers() {
  static const std::vector<std::vector<std::string>> all = {{"kernel"}, {"first_kernel", "second_kernel"}};
  return all;
}

byte_pattern launch_bounds() {
  constexpr int most_digits = 4;
  const auto number = pattern::times(pattern::any_of("0123456789"), 1, most_digits);
  const auto blocks = pattern::choice({pattern::text(""), pattern::sequence({pattern::text(", "), number})});
  return pattern::choice({pattern::text(""), pattern::sequence({pattern::text("__launch_bounds__("), number, blocks,
                                                                pattern::text(") ")})});
}

}  // namespace cudal1
