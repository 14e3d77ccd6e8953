// The CUDA C++ scanner: splits a program's source into tokens with their positions. The format's rules, the compilers'
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
  line_marker,       // `# 12 "file"`, written by a preprocessor
  comment,           // either kind
  unclosed_comment,  // the last token: the rest of the source is not scanned
  unclosed_text,     // the same
};

struct token {
  token_kind kind = token_kind::punctuation;
  std::string_view text;  // into the source; a directive's is its whole line, from '#'
  std::size_t begin = 0;
  std::size_t end = 0;
  int line = 1;              // of the program's source, from 1; of the first line where lines were joined
  bool begins_line = false;  // only blanks and comments are before it on its line

  bool is(std::string_view wanted) const { return text == wanted; }
  bool is_name() const { return kind == token_kind::identifier; }
};

// A source with its continued lines joined. The removed newlines follow the joined line, so that later lines keep their
// numbers.
struct joined_source {
  std::string text;
  std::vector<std::size_t> continuations;  // where in `text` a continuation was

  // The line of the source, from 1, that contains text[at].
  std::size_t line_of(std::size_t at) const;
};
joined_source join_lines(std::string_view source);

enum class directive_form {
  line,   // one token of kind directive, or line_marker, which sets the line of what follows
  words,  // the tokens that it consists of, from '#' on
};

// All tokens of a joined source, in order, including comments. Never fails: callers reject the tokens that they do not
// accept. A punctuation token is one character, except for == <= >= != && || :: << (and <<<) -> ++ -- and the
// assignments. The views point into `joined`.
std::vector<token> scan(std::string_view joined, directive_form form);

// The tokens that compilers' rules and rewriting work on: without comments and line markers, directives as lines.
// Rejected, since they can hide words: raw strings, digraphs, universal character names, characters beyond ASCII
// outside comments and strings, comments that run from a preprocessor line to the next. Errors: refused, with the line.
expected<std::vector<token>> tokens_of(std::string_view joined);

// The index after the bracket that matches the one at `open`, counting brackets of that kind only; tokens.size() + 1
// where it is not closed.
std::size_t after_matching_bracket(std::span<const token> tokens, std::size_t open);

// The letters, digits and underscores at the start of `text`.
std::string_view leading_word(std::string_view text);

}  // namespace cudal1
