// The CUDA C++ scanner: from a program's source to its tokens with their places. The format's rules, the compilers'
// rules and every rewriting of a source work on these tokens; nothing else reads a source character by character.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

enum class token_kind {
  identifier,
  number,
  text,  // a string or character literal with its quotes; a prefix (L, u8) is an identifier before it
  punctuation,
  directive,         // a preprocessor line
  line_marker,       // `# 12 "file"`, which a preprocessor leaves behind
  comment,           // either kind
  unclosed_comment,  // the last token: what follows cannot be told
  unclosed_text,     // the same
};

struct token {
  token_kind kind = token_kind::punctuation;
  std::string_view text;  // into the source; a directive's is its whole line, from '#'
  std::size_t begin = 0;
  std::size_t end = 0;
  int line = 1;              // of the program's source, from 1; of the first line where lines were joined
  bool begins_line = false;  // nothing but blanks and comments stands before it on its line

  bool is(std::string_view wanted) const { return text == wanted; }
  bool is_name() const { return kind == token_kind::identifier; }
};

// A source with its continued lines joined. As many newlines follow the joined line, so that lines keep their numbers.
struct joined_source {
  std::string text;
  std::vector<std::size_t> joints;  // where in `text` a continuation was

  // The line of the source, from 1, that text[at] stood on.
  std::size_t line_of(std::size_t at) const;
};
joined_source join_lines(std::string_view source);

enum class directive_form {
  line,   // one token of kind directive, or line_marker, which sets the line of what follows
  words,  // the tokens that it consists of, from '#' on
};

// All tokens of a joined source, in order, comments among them. Refuses nothing: what a reader does not accept, it
// refuses by the tokens. Punctuation is one character a token, but for == <= >= != && || :: << (and <<<) -> ++ -- and
// the assignments. The views point into `joined`.
std::vector<token> scan(std::string_view joined, directive_form form);

// The tokens that compilers' rules and rewriting work on: without comments and line markers, directives as lines.
// Refused, since they hide words: raw strings, digraphs, universal character names, characters beyond ASCII outside
// comments and strings, comments that run from a preprocessor line to the next. Errors: refused, with the line.
expected<std::vector<token>> tokens_of(std::string_view joined);

// The token behind the partner of the bracket at `open`, counting brackets of its own kind; tokens.size() + 1 where it
// stays open.
std::size_t after_partner(std::span<const token> tokens, std::size_t open);

// The letters, digits and underscores that `text` begins with.
std::string_view leading_word(std::string_view text);

}  // namespace cudal1
