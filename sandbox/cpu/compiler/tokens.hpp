// The words of a program's source, with their places: what the scans and the rewriting work on.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

enum class token_kind { identifier, number, text, punctuation, directive };

struct token {
  token_kind kind = token_kind::punctuation;
  std::string_view text;  // into the source; a directive's is its whole line, from '#'
  std::size_t begin = 0;
  std::size_t end = 0;
  int line = 1;  // of the program's source, from 1

  bool is(std::string_view wanted) const { return text == wanted; }
  bool is_name() const { return kind == token_kind::identifier; }
};

// The source with line continuations joined (as many newlines follow, so that lines keep their numbers).
std::string join_lines(std::string_view source);

// The tokens of a joined source, without comments; punctuation is one character a token, but for == <= >= != && || ::
// << (and <<<) -> ++ -- and the assignments. Line markers of the preprocessor (`# 12 "file"`) set the line and are no
// tokens. Refused, since they hide words: raw strings, digraphs, universal character names, characters beyond ASCII
// outside comments and strings. The views point into `source`.
expected<std::vector<token>> tokens_of(std::string_view source);

}  // namespace cudal1
