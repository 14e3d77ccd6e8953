// Chat templates as trees: the subset of Jinja that templates of language models use.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/chat_template/template_value.hpp"

namespace cudal1 {

// `text` and what `parts` are, by kind:
enum class expression_kind {
  literal,      // value
  name,         // text
  list,         // items
  mapping,      // key, value, key, value, ...
  attribute,    // of what; text: the name
  item,         // of what, index
  slice,        // of what, from, to, step: literals of undefined where there is none
  call,         // what, arguments; named
  filter,       // of what, arguments; named; text: the name
  test,         // of what, arguments; text: the name
  unary,        // operand; text: not, -, +
  binary,       // operands; text: the operator (and, or, in, not in, ==, +, ~, ...)
  conditional,  // then, condition, else (a literal of undefined where there is none)
};

struct template_expression {
  expression_kind kind = expression_kind::literal;
  std::string text = {};
  template_value value = {};
  std::vector<template_expression> parts = {};
  std::vector<std::pair<std::string, template_expression>> named = {};
};

enum class statement_kind {
  text,        // text
  output,      // expressions: what
  branch,      // expressions: conditions; bodies: one for each, and perhaps one more for `else`
  loop,        // names; expressions: over what, and perhaps a condition; bodies: the loop's, perhaps `else`
  assignment,  // names: a variable, or a namespace and its attribute; expressions: the value
};

struct template_statement {
  statement_kind kind = statement_kind::text;
  int line = 0;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<template_expression> expressions = {};
  std::vector<std::vector<template_statement>> bodies = {};
};

// What a template is cut into: texts, {{ outputs }} and {% blocks %}, without comments. Blanks are stripped as chat
// templates want it (trim_blocks and lstrip_blocks are on).
struct template_piece {
  enum class kind { text, output, block } what = kind::text;
  std::string_view text;  // within the source; without the braces
  int line = 0;
};
expected<std::vector<template_piece>> cut_template(std::string_view source);

// A token of an expression.
struct template_word {
  enum class kind { name, text, integer, real, sign, end } what = kind::end;
  std::string text;  // of a text: its content
};
expected<std::vector<template_word>> words_of(std::string_view expression);

// errc::unsupported and errc::parse_error name the line.
expected<std::vector<template_statement>> parse_template(std::string_view source);

}  // namespace cudal1
